-- New jobs that differ only in id, input and key.
insert into /*headway*/job (id, input, key, run_at, created_at, sequence_id, root_id, /*new*/)
select
    item.value ->> 0, item.value ->> 1, item.value ->> 2,
    max(coalesce(?3, ?2), ?2) + cast(round(?4 * 1000000) as integer), ?2,
    coalesce(?5, item.value ->> 0), coalesce(?6, item.value ->> 0), /*new from ?7*/
from json_each(?1) item
where true
on conflict (id) do nothing
