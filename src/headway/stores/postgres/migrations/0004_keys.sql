-- For claims by key. Jobs without a key are not in it.
create index concurrently if not exists job_keyed on /*headway*/job (queue, priority, key, run_at, id)
where state = 'pending' and key is not null;
