-- The answer is that of next_schedule, so that a worker learns of schedules without asking for them.
insert into /*headway*/worker (
    id, host, pid, queues, types, concurrency, running, started_at, seen_at, schedules, limits
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?11)
on conflict (id) do update set
    host = excluded.host, pid = excluded.pid, queues = excluded.queues, types = excluded.types,
    concurrency = excluded.concurrency, running = excluded.running, seen_at = excluded.seen_at,
    schedules = excluded.schedules, limits = excluded.limits
returning case when ?9 is not null then ((
    select next_at from /*headway*/schedule
    where paused_at is null
        and (declaration is null or name in (select value from json_each(?10)))
    order by next_at limit 1
) - seen_at) / 1000000.0 end
