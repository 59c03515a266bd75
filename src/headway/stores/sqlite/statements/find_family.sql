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
), /*page*/
