-- The same as `insert` for jobs that begin a sequence now, as COPY.
copy /*headway*/job (id, sequence_id, root_id, input, key, run_at, created_at, /*new*/) from stdin
