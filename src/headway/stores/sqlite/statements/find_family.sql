-- As find_newest, among the jobs with one root.
with candidate (id) as materialized (
    select id from /*headway*/job where id = ?23 and id < ?1
    union all
    select * from (
        select id from /*headway*/job
        where root_id = ?23 and root_id <> id and id < ?1
        order by id desc limit ?21
    )
    order by 1 desc limit ?21
), /*page*/
