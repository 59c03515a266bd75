-- All jobs, newest first: of the next ?21 jobs those that match, at most ?22. If fewer match, each
-- row begins with the id of the last job that was read, to go on from; null if there are no more.
with found as materialized (
    select /*record*/
    from (select * from /*headway*/job where id < ?1 order by id desc limit ?21) j
    where /*match*/
    order by j.id desc
    limit ?22
)
select
    case when (select count(*) from found) < ?22 then (
        select id from /*headway*/job where id < ?1 order by id desc limit 1 offset ?21 - 1
    ) end,
    found.*
from (select 1) left join found
