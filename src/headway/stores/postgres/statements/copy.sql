-- The same as `insert` for jobs that begin a sequence now, as COPY.
copy /*headway*/job (
    id, sequence_id, root_id, input, run_at, created_at, type, queue, priority, max_attempts,
    max_losses, timeout, sequence_type, origin_id, position, state, waiting, has_blockers, awaited,
    dedup_key, trace
) from stdin
