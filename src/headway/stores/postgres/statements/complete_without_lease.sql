-- Completion without a lease; the caller has locked the row.
update /*headway*/job
set state = 'completed',
    output = $2::text,
    finished_at = coalesce($3::timestamptz, statement_timestamp()),
    lease_token = null,
    lease_until = null,
    waiting = 0,
    worker = null
where id = $1::uuid and state in ('blocked', 'pending', 'running')
returning id, sequence_id, awaited, schedule
