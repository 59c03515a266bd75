-- As find_newest, among the jobs with one root.
with candidate (id) as materialized (
    select id from /*headway*/job where id = ?19 and id < ?1
    union all
    select * from (
        select id from /*headway*/job
        where root_id = ?19 and root_id <> id and id < ?1
        order by id desc limit ?17
    )
    order by 1 desc limit ?17
), found as materialized (
    select /*record*/
    from candidate c cross join /*headway*/job j on j.id = c.id
    where /*match*/
    limit ?18
)
select
    case when (select count(*) from found) < ?18 then (
        select id from candidate limit 1 offset ?17 - 1
    ) end,
    found.*
from (select 1) left join found
