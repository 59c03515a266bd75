-- Jobs of ticks, which have little in common. The answer are the new jobs: id and run_at.
insert into /*headway*/job (
    id, sequence_id, root_id, input, type, queue, priority, max_attempts, max_losses, timeout,
    run_at, created_at, position, state, schedule, scheduled_for, key
)
select
    u.id, u.id, u.id, u.input, u.type, u.queue, u.priority, u.max_attempts, u.max_losses,
    u.timeout, greatest(u.run_at, given.now), given.now, 0, 'pending', u.schedule, u.scheduled_for, u.key
from (select coalesce($13::timestamptz, statement_timestamp()) as now) given, unnest(
    $1::uuid[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::int[], $7::int[],
    $8::float8[], $9::timestamptz[], $10::text[], $11::timestamptz[], $12::text[]
) as u (
    id, input, type, queue, priority, max_attempts, max_losses, timeout, run_at, schedule,
    scheduled_for, key
)
on conflict (id) do nothing
returning id, run_at
