insert into /*headway*/worker (
    id, host, pid, queues, types, concurrency, running, started_at, seen_at, schedules
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9)
on conflict (id) do update set
    host = excluded.host, pid = excluded.pid, queues = excluded.queues, types = excluded.types,
    concurrency = excluded.concurrency, running = excluded.running, seen_at = excluded.seen_at,
    schedules = excluded.schedules
