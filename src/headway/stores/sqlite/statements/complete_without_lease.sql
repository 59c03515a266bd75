-- Completion without a lease; the caller holds the write lock.
update /*headway*/job
set state = 'completed', output = ?2, finished_at = ?3, lease_token = null, lease_until = null,
    waiting = 0, worker = null
where id = ?1 and state in ('blocked', 'pending', 'running')
returning id, sequence_id, awaited, schedule
