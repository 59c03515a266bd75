-- New jobs that each continue a sequence of their own, and share all that is not in the items.
insert into /*headway*/job (
    id, input, sequence_id, sequence_type, root_id, origin_id, position, trace, awaited, state,
    run_at, created_at, type, queue, priority, max_attempts, max_losses, timeout, dedup_key
)
select
    item.value ->> 0, item.value ->> 1, coalesce(item.value ->> 2, item.value ->> 0),
    item.value ->> 3, coalesce(item.value ->> 4, item.value ->> 0), item.value ->> 5,
    item.value ->> 6, item.value ->> 7, item.value ->> 8, 'pending',
    max(coalesce(?3, ?2), ?2) + cast(round(?4 * 1000000) as integer), ?2, ?5, ?6, ?7, ?8, ?9, ?10,
    ?11
from json_each(?1) item
