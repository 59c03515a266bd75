update /*headway*/job
set state = 'cancelled',
    finished_at = coalesce($2::timestamptz, statement_timestamp()),
    lease_token = null,
    lease_until = null
where id = any($1::uuid[]) and state in ('blocked', 'pending', 'running')
returning id
