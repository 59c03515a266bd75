-- Jobs of ticks, which have little in common. The answer are the new jobs: id and run_at.
insert into /*headway*/job (
    id, sequence_id, root_id, input, type, queue, priority, max_attempts, max_losses, timeout,
    run_at, created_at, position, state, schedule, scheduled_for, key
)
select
    item.value ->> 0, item.value ->> 0, item.value ->> 0, item.value ->> 1, item.value ->> 2,
    item.value ->> 3, item.value ->> 4, item.value ->> 5, item.value ->> 6, item.value ->> 7,
    max(coalesce(item.value ->> 8, ?2), ?2), ?2, 0, 'pending', item.value ->> 9, item.value ->> 10,
    item.value ->> 11
from json_each(?1) item
where true
on conflict (id) do nothing
returning id, run_at
