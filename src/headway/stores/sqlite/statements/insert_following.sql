-- Successors of completed jobs, which share everything that is not in the items.
insert into /*headway*/job (
    awaited, id, input, sequence_id, root_id, key, /*place*/, state, run_at, created_at, /*options*/
)
select
    item.value ->> 0, item.value ->> 1, item.value ->> 2,
    coalesce(item.value ->> 3, item.value ->> 1), coalesce(item.value ->> 4, item.value ->> 1),
    item.value ->> 5, /*place items from 6*/, 'pending',
    max(coalesce(?3, ?2), ?2) + cast(round(?4 * 1000000) as integer), ?2, /*options from ?5*/
from json_each(?1) item
