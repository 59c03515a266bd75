-- All jobs, newest first: of the next $17 jobs those that match, at most $18. If fewer match, each
-- row begins with the id of the last job that was read, to go on from; null if there are no more.
with found as materialized (
    select /*record*/
    from (select * from /*headway*/job where id < $1::uuid order by id desc limit $17::int) j
    where /*match*/
    order by j.id desc
    limit $18::int
)
select
    case when (select count(*) from found) < $18::int then (
        select id from /*headway*/job where id < $1::uuid
        order by id desc offset $17::int - 1 limit 1
    ) end,
    found.*
from (select) one left join found on true
