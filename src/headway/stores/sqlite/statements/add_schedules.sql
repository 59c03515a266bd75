-- One that another transaction stores at the same time is not written over: a pause and the
-- last run would be lost. The answer are the names of the new ones.
insert into /*headway*/schedule (
    /*schedule*/
)
select
    item.value ->> 0, item.value ->> 1, item.value ->> 2, item.value ->> 3, item.value ->> 4,
    item.value ->> 5, item.value ->> 6, item.value ->> 7, item.value ->> 8, item.value ->> 9,
    item.value ->> 10, item.value ->> 11, item.value ->> 12, item.value ->> 13, item.value ->> 14
from json_each(?1) item
where true
on conflict (name) do nothing
returning name
