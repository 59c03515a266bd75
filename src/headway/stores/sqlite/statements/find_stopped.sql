-- As find_newest, among jobs in states that few jobs are in.
with candidate (id) as materialized (
    select * from (
        select id from /*headway*/job
        where state = 'failed' and state in ('blocked', 'failed', 'cancelled')
            and 'failed' in (select value from json_each(?2)) and id < ?1
        order by id desc limit ?21
    )
    union all
    select * from (
        select id from /*headway*/job
        where state = 'blocked' and state in ('blocked', 'failed', 'cancelled')
            and 'blocked' in (select value from json_each(?2)) and id < ?1
        order by id desc limit ?21
    )
    union all
    select * from (
        select id from /*headway*/job
        where state = 'cancelled' and state in ('blocked', 'failed', 'cancelled')
            and 'cancelled' in (select value from json_each(?2)) and id < ?1
        order by id desc limit ?21
    )
    order by 1 desc limit ?21
), /*page*/
