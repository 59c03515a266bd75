-- What an earlier try of a claim took, whose answer was lost: the leases begin anew.
update /*headway*/job
set lease_until = ?1 + cast(round(?2 * 1000000) as integer)
where state = 'running'
    and lease_token = ?3
    and lease_until > ?1
returning
    id, type, queue, priority, input, run_at, created_at, attempts, losses, max_attempts,
    max_losses, timeout, lease_version, lease_until, sequence_id, coalesce(sequence_type, type),
    root_id, origin_id, position, has_blockers, trace
