-- Jobs in states that few jobs are in, from the indexes of these states, up to a number for each;
-- the last column says whether the count is complete. Pending jobs are counted by queue, so that a
-- long queue hides no short one.
with recursive waiting_queue (queue) as (
    select min(queue) from /*headway*/job where state = 'pending'
    union all
    select (
        select p.queue from /*headway*/job p
        where p.state = 'pending' and p.queue > w.queue order by p.queue limit 1
    )
    from waiting_queue w where w.queue is not null
), bounds (most) as materialized (
    select max(?2 / max(count(*), 1), 50) from waiting_queue w where queue is not null
), pending as materialized (
    select w.queue, (
        select json_group_array(json_array(type, due, count, oldest))
        from (
            select type, run_at <= ?1 as due, count(*) as count, min(run_at) as oldest
            from (
                select p.type, p.run_at from /*headway*/job p
                where p.state = 'pending' and p.queue = w.queue
                limit (select most from bounds)
            )
            group by 1, 2
        )
    ) as groups
    from waiting_queue w where w.queue is not null
), others as materialized (
    select state, (
        select json_group_array(json_array(queue, type, count))
        from (
            select queue, type, count(*) as count
            from (
                select s.queue, s.type from /*headway*/job s
                where s.state = stopped.state and s.state in ('blocked', 'failed', 'cancelled')
                order by s.id desc limit ?2
            )
            group by 1, 2
        )
    ) as groups
    from (select 'blocked' as state union all select 'failed' union all select 'cancelled') stopped
    union all
    select 'running', json_group_array(json_array(queue, type, count))
    from (
        select queue, type, count(*) as count
        from (select r.queue, r.type from /*headway*/job r where r.state = 'running' limit ?2)
        group by 1, 2
    )
)
select
    pending.queue, one.value ->> 0, 'pending', one.value ->> 1, one.value ->> 2, one.value ->> 3,
    sum(one.value ->> 2) over (partition by pending.queue) < (select most from bounds)
from pending, json_each(pending.groups) one
union all
select
    one.value ->> 0, one.value ->> 1, others.state, 1, one.value ->> 2, null,
    sum(one.value ->> 2) over (partition by others.state) < ?2
from others, json_each(others.groups) one
