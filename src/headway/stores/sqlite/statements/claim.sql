-- Claim due jobs of one queue. There is one writer at a time, so no row is locked by another.
update /*headway*/job
set state = 'running',
    started_at = ?3,
    lease_until = ?3 + cast(round(?4 * 1000000) as integer),
    lease_token = ?5,
    lease_version = lease_version + 1,
    worker = ?6
where seq in (
    select seq from /*headway*/job
    where state = 'pending'
        and queue = ?1
        and run_at <= ?3
        and type in (select value from json_each(?7))
        and (?8 is null or losses <= ?8)
        and not exists (
            select 1 from /*headway*/queue q
            where q.name = ?1 and (q.paused_at is not null or (q.limited and not ?9))
        )
    order by priority desc, run_at, id
    limit ?2
)
returning /*claimed*/
