-- All jobs of a small set that match: at most ?21 jobs by each index that is asked. These indexes
-- are not in the order of the ids, so the whole set is read. If it is larger, the first column is
-- false and the caller has to use another index.
with candidate (id) as materialized (
    select value from json_each(?23)
    union
    select ?24 where ?24 is not null
    union
    select id from /*headway*/job where sequence_id = ?24 and position > 0
    union
    select * from (
        select id from /*headway*/job where dedup_key in (select value from json_each(?25))
        limit ?21 + 1
    )
    union
    select * from (
        select id from /*headway*/job
        where state = 'pending' and 'pending' in (select value from json_each(?26))
        limit ?21 + 1
    )
    union
    select * from (
        select id from /*headway*/job
        where state = 'running' and 'running' in (select value from json_each(?26))
        limit ?21 + 1
    )
    union
    select * from (
        select id from /*headway*/job
        where state in ('blocked', 'failed', 'cancelled')
            and state in (select value from json_each(?26))
        limit ?21 + 1
    )
    union
    select * from (
        select id from /*headway*/job
        where ?27 and finished_at is not null
            and finished_at > ?4 - cast(round(coalesce(?13, 1e10) * 1000000) as integer)
            and finished_at <= ?4 - cast(round(coalesce(?14, -1e10) * 1000000) as integer)
        limit ?21 + 1
    )
), looked as materialized (
    select count(*) <= ?21 as few from candidate
), found as materialized (
    select /*record*/
    from (select id from candidate where id < ?1 order by id desc) c
    cross join /*headway*/job j on j.id = c.id
    where (select few from looked) and /*match*/
    order by c.id desc
    limit ?22
)
select looked.few, found.* from looked left join found
