update /*headway*/schedule as s
set next_at = item.value ->> 1,
    waiting_tick = item.value ->> 2,
    last_tick = coalesce(item.value ->> 3, s.last_tick),
    last_at = coalesce(item.value ->> 4, s.last_at),
    last_sequence_id = coalesce(item.value ->> 5, s.last_sequence_id),
    fired = s.fired + (item.value ->> 6),
    skipped = s.skipped + (item.value ->> 7),
    runs = s.runs + (item.value ->> 8)
from json_each(?1) item
where s.name = item.value ->> 0
