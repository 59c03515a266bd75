-- As find_newest, among the jobs with one root.
with last as (
    select one.id
    from (
        (select id from /*headway*/job where id = $23::uuid and id < $1::uuid)
        union all
        (
            select id from /*headway*/job
            where root_id = $23::uuid and root_id <> id and id < $1::uuid
            order by id desc limit $21::int
        )
    ) one
    order by one.id desc offset $21::int - 1 limit 1
), candidate as (
    (select * from /*headway*/job where id = $23::uuid and id < $1::uuid)
    union all
    (
        select * from /*headway*/job
        where root_id = $23::uuid and root_id <> id and id < $1::uuid
        order by id desc limit $21::int
    )
    order by id desc limit $21::int
), /*page*/
