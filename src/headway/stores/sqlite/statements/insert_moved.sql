-- Jobs that come from another store, unchanged.
insert into /*headway*/job (/*moved*/)
select /*moved items from 0*/
from json_each(?1) item
where true
on conflict (id) do nothing
returning id
