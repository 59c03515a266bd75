-- Claim due jobs of one queue and priority, key by key, and jobs without a key.
with given as (
    select coalesce($6::timestamptz, statement_timestamp()) as now
)
update /*headway*/job j
set state = 'running',
    started_at = given.now,
    lease_until = given.now + make_interval(secs => $11::float8),
    lease_token = $12::uuid,
    lease_version = j.lease_version + 1,
    worker = $13::text
from given
where j.ctid = any(array(
    select due.ctid
    from (
        select mine.ctid
        from unnest($1::text[], $2::int[], $3::timestamptz[]) as turn (key, most, since)
        cross join lateral (
            select p.ctid
            from /*headway*/job p
            where p.state = 'pending'
                and p.queue = $4::text
                and p.priority = $5::smallint
                and p.key = turn.key
                and p.run_at >= coalesce(turn.since, '-infinity')
                and p.run_at <= coalesce($6::timestamptz, statement_timestamp())
                and p.type = any($7::text[])
                and ($8::int is null or p.losses <= $8::int)
            order by p.run_at, p.id
            limit turn.most
            for update skip locked
        ) mine
        union all
        select others.ctid
        from (
            select p.ctid
            from /*headway*/job p
            where p.state = 'pending'
                and p.queue = $4::text
                and p.priority = $5::smallint
                and p.key is null
                and p.run_at <= coalesce($6::timestamptz, statement_timestamp())
                and p.type = any($7::text[])
                and ($8::int is null or p.losses <= $8::int)
            order by p.run_at, p.id
            limit $10::int
            for update skip locked
        ) others
    ) due
    limit $9::int
))
returning /*claimed*/
