-- One new job; run once per item.
insert into /*headway*/job (
    id, input, run_at, created_at, type, queue, priority, max_attempts, max_losses, timeout,
    sequence_id, sequence_type, root_id, origin_id, step, state, waiting, has_blockers, awaited,
    dedup_key, trace
)
values (
    ?1, ?2, max(coalesce(?4, ?3), ?3) + cast(round(?5 * 1000000) as integer), ?3, ?6, ?7, ?8, ?9,
    ?10, ?11, coalesce(?12, ?1), ?13, coalesce(?14, ?1), ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22
)
on conflict (id) do nothing
