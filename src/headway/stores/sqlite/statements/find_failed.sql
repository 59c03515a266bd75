-- As find_newest, among the failed jobs with these fingerprints.
with candidate (id) as materialized (
    select id from /*headway*/job
    where state = 'failed' and fingerprint in (select value from json_each(?10)) and id < ?1
    order by id desc limit ?17
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
