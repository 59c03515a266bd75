insert into /*headway*/schedule (
    /*schedule*/
)
select
    item.value ->> 0, item.value ->> 1, item.value ->> 2, item.value ->> 3, item.value ->> 4,
    item.value ->> 5, item.value ->> 6, item.value ->> 7, item.value ->> 8, item.value ->> 9,
    item.value ->> 10, item.value ->> 11, item.value ->> 12, item.value ->> 13, item.value ->> 14
from json_each(?1) item
where true
on conflict (name) do update set
    definition = excluded.definition, declaration = excluded.declaration,
    replaced = excluded.replaced, next_at = excluded.next_at, waiting_tick = excluded.waiting_tick,
    paused_at = excluded.paused_at, last_tick = excluded.last_tick, last_at = excluded.last_at,
    last_sequence_id = excluded.last_sequence_id, fired = excluded.fired,
    skipped = excluded.skipped, runs = excluded.runs, changed_at = excluded.changed_at
