-- As find_newest, among jobs in states that few jobs are in.
with candidate (id) as materialized (
    select * from (
        select id from /*headway*/job
        where state = 'failed' and state in ('blocked', 'failed', 'cancelled')
            and 'failed' in (select value from json_each(?2)) and id < ?1
        order by id desc limit ?17
    )
    union all
    select * from (
        select id from /*headway*/job
        where state = 'blocked' and state in ('blocked', 'failed', 'cancelled')
            and 'blocked' in (select value from json_each(?2)) and id < ?1
        order by id desc limit ?17
    )
    union all
    select * from (
        select id from /*headway*/job
        where state = 'cancelled' and state in ('blocked', 'failed', 'cancelled')
            and 'cancelled' in (select value from json_each(?2)) and id < ?1
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
