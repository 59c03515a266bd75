-- The newest run takes the place of the oldest, so that a schedule has a fixed number of them.
insert into /*headway*/schedule_run (schedule, slot, tick, at, sequence_id, skipped)
select
    item.value ->> 0, item.value ->> 1, item.value ->> 2, item.value ->> 3, item.value ->> 4,
    item.value ->> 5
from json_each(?1) item
where true
on conflict (schedule, slot) do update set
    tick = excluded.tick, at = excluded.at, sequence_id = excluded.sequence_id,
    skipped = excluded.skipped
