-- Jobs that come from another store, as they were there.
insert into /*headway*/job (
    id, sequence_id, root_id, origin_id, run_at, created_at, started_at, finished_at, timeout, position,
    attempts, losses, max_attempts, max_losses, lease_version, waiting, priority, has_blockers,
    awaited, state, type, queue, sequence_type, worker, dedup_key, trace, last_error, fingerprint,
    input, output
)
select
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
    value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->>
    13, value ->> 14, value ->> 15, value ->> 16, value ->> 17, value ->> 18, value ->> 19,
    value ->> 20, value ->> 21, value ->> 22, value ->> 23, value ->> 24, value ->> 25, value
    ->> 26, value ->> 27, value ->> 28, value ->> 29
from json_each(?1)
where true
on conflict (id) do nothing
returning id
