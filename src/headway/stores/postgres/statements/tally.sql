-- Jobs in states that few jobs are in, from the indexes of these states, up to a number for each;
-- the last column says whether the count is complete. Pending jobs are counted by queue and
-- priority, so that a long queue hides no short one.
with recursive waiting_queue (queue, priority) as (
    (
        select queue, priority from /*headway*/job where state = 'pending'
        order by queue, priority limit 1
    )
    union all
    select next.queue, next.priority
    from waiting_queue w
    cross join lateral (
        select j.queue, j.priority from /*headway*/job j
        where j.state = 'pending' and (j.queue, j.priority) > (w.queue, w.priority)
        order by j.queue, j.priority limit 1
    ) next
), bounds as (
    select greatest($2::int / greatest(count(*), 1), 50)::int as most from waiting_queue w
), pending as (
    select one.queue, one.type, one.run_at, one.count < bounds.most as every
    from waiting_queue w
    cross join bounds
    cross join lateral (
        select j.queue, j.type, j.run_at, count(*) over () as count
        from (
            select queue, type, run_at from /*headway*/job
            where state = 'pending' and queue = w.queue and priority = w.priority
            order by queue, priority, run_at, id limit bounds.most
        ) j
    ) one
), others as (
    (
        select queue, type, state, count(*) over () < $2::int as every
        from (
            select queue, type, state from /*headway*/job
            where state = 'running' order by lease_until limit $2::int
        ) running
    )
    union all
    (
        select one.queue, one.type, one.state, one.count < $2::int
        from unnest(array['blocked', 'failed', 'cancelled']) as s (state)
        cross join lateral (
            select queue, type, state, count(*) over () as count
            from (
                select queue, type, state from /*headway*/job
                where state = s.state and state in ('blocked', 'failed', 'cancelled')
                order by id desc limit $2::int
            ) stopped
        ) one
    )
)
select
    queue, type, 'pending', run_at <= coalesce($1::timestamptz, statement_timestamp()) as due,
    count(*), min(run_at), bool_and(every)
from pending group by queue, type, due
union all
select queue, type, state, true, count(*), null, bool_and(every)
from others group by queue, type, state
