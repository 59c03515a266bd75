select id, host, pid, queues, types, concurrency, running, started_at, seen_at, schedules,
    limits
from /*headway*/worker order by started_at, id
