-- Of the next ?3 ids, newest first, those with one of the endings ?2, in any order. Each row begins
-- with the id to go on from; null if there are no more. Only the index of the ids is read.
with found as materialized (
    select c.id
    from json_each(?2) e
    cross join (select id from /*headway*/job where id < ?1 order by id desc limit ?3) c
    where substr(c.id, -length(e.value)) = e.value
)
select
    (select id from /*headway*/job where id < ?1 order by id desc limit 1 offset ?3 - 1), found.id
from (select 1) left join found
