-- The answer is that of next_schedule, so that a worker learns of schedules without asking for them.
insert into /*headway*/worker (
    id, host, pid, queues, types, concurrency, running, started_at, seen_at, schedules, limits
)
values (
    $1::text, $2::text, $3::int, $4::text, $5::text, $6::int, $7::int,
    coalesce($8::timestamptz, statement_timestamp()),
    coalesce($8::timestamptz, statement_timestamp()),
    $9::text, $11::text
)
on conflict (id) do update set
    host = excluded.host, pid = excluded.pid, queues = excluded.queues, types = excluded.types,
    concurrency = excluded.concurrency, running = excluded.running, seen_at = excluded.seen_at,
    schedules = excluded.schedules, limits = excluded.limits
returning case when $9::text is not null then extract(epoch from (
    select next_at from /*headway*/schedule
    where paused_at is null and (declaration is null or name = any($10::text[]))
    order by next_at limit 1
) - seen_at)::float8 end
