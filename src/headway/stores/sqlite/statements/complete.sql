-- The fast path: jobs for which nobody waits.
update /*headway*/job
set state = 'completed', output = ?3, finished_at = ?4, lease_token = null, lease_until = null
where id = ?1 and lease_token = ?2 and lease_until > ?4 and not awaited
returning id
