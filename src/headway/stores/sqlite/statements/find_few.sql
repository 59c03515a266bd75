-- Among all of a small set, if it is one: at most ?17 by each way that is given. The indexes do not
-- have them by id, so all must be seen: if there are more, the answer's first column is false, and
-- whoever asked must ask otherwise.
with candidate (id) as materialized (
    select value from json_each(?19)
    union
    select ?20 where ?20 is not null
    union
    select id from /*headway*/job where sequence_id = ?20 and position > 0
    union
    select * from (
        select id from /*headway*/job where dedup_key in (select value from json_each(?21))
        limit ?17 + 1
    )
    union
    select * from (
        select id from /*headway*/job
        where state = 'pending' and 'pending' in (select value from json_each(?22))
        limit ?17 + 1
    )
    union
    select * from (
        select id from /*headway*/job
        where state = 'running' and 'running' in (select value from json_each(?22))
        limit ?17 + 1
    )
    union
    select * from (
        select id from /*headway*/job
        where state in ('blocked', 'failed', 'cancelled')
            and state in (select value from json_each(?22))
        limit ?17 + 1
    )
    union
    select * from (
        select id from /*headway*/job
        where ?23 and finished_at is not null
            and finished_at > ?4 - cast(round(coalesce(?13, 1e10) * 1000000) as integer)
            and finished_at <= ?4 - cast(round(coalesce(?14, -1e10) * 1000000) as integer)
        limit ?17 + 1
    )
), looked as materialized (
    select count(*) <= ?17 as few from candidate
), found as materialized (
    select /*record*/
    from (select id from candidate where id < ?1 order by id desc) c
    cross join /*headway*/job j on j.id = c.id
    where (select few from looked) and /*match*/
    order by c.id desc
    limit ?18
)
select looked.few, found.* from looked left join found
