-- New jobs that differ only in id and input.
insert into /*headway*/job (
    id, input, run_at, created_at, type, queue, priority, max_attempts, max_losses, timeout,
    sequence_id, sequence_type, root_id, origin_id, position, state, waiting, has_blockers, awaited,
    dedup_key, trace
)
select
    item.value ->> 0, item.value ->> 1,
    max(coalesce(?3, ?2), ?2) + cast(round(?4 * 1000000) as integer), ?2, ?5, ?6, ?7, ?8, ?9, ?10,
    coalesce(?11, item.value ->> 0), ?12, coalesce(?13, item.value ->> 0), ?14, ?15, ?16, ?17,
    ?18, ?19, ?20, ?21
from json_each(?1) item
where true
on conflict (id) do nothing
