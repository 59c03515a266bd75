-- Claim due jobs, range by range: a range is a queue, a priority and a bound on run_at.
-- The update finds the locked rows by ctid, because a join on the id takes half as long again.
-- Dead index entries below the bound are not read; they pile up while vacuum is held back.
with given as (
    select coalesce($5::timestamptz, statement_timestamp()) as now
)
update /*headway*/job j
set state = 'running',
    started_at = given.now,
    lease_until = given.now + make_interval(secs => $6::float8),
    lease_token = $7::uuid,
    lease_version = j.lease_version + 1,
    worker = $8::text
from given
where j.ctid = any(array(
    select due.ctid
    from unnest($1::text[], $2::smallint[], $3::timestamptz[], $4::int[])
        as span (queue, priority, bound, most)
    cross join lateral (
        select p.ctid
        from /*headway*/job p
        where p.state = 'pending'
            and p.queue = span.queue
            and p.priority = span.priority
            and p.run_at >= span.bound
            and p.run_at <= coalesce($5::timestamptz, statement_timestamp())
            and p.type = any($9::text[])
            and ($11::int is null or p.losses <= $11::int)
        order by p.run_at, p.id
        limit span.most
        for update skip locked
    ) due
    where not exists (
        select from /*headway*/queue q
        where q.name = span.queue
            and (q.paused_at is not null or (q.limited and not $12::bool))
    )
    limit $10::int
))
returning /*claimed*/
