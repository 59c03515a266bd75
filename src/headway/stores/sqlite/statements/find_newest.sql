-- All jobs, newest first: of the next ?17 jobs those that match, at most ?18. If fewer match, each
-- row begins with the id of the last job that was read, to go on from; null if there are no more.
with found as materialized (
    select /*record*/
    from (select * from /*headway*/job where id < ?1 order by id desc limit ?17) j
    where /*match*/
    order by j.id desc
    limit ?18
)
select
    case when (select count(*) from found) < ?18 then (
        select id from /*headway*/job where id < ?1 order by id desc limit 1 offset ?17 - 1
    ) end,
    found.*
from (select 1) left join found
