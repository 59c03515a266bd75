-- As find_newest, among jobs in states that few jobs are in. The parts that are merged are already
-- in order.
with last as (
    select one.id
    from unnest($2::text[]) as s (state)
    cross join lateral (
        select id from /*headway*/job
        where state = s.state and state in ('blocked', 'failed', 'cancelled') and id < $1::uuid
        order by id desc limit $21::int
    ) one
    order by one.id desc offset $21::int - 1 limit 1
), candidate as (
    (
        select * from /*headway*/job
        where state = 'failed' and state in ('blocked', 'failed', 'cancelled')
            and 'failed' = any($2::text[]) and id < $1::uuid
        order by id desc limit $21::int
    )
    union all
    (
        select * from /*headway*/job
        where state = 'blocked' and state in ('blocked', 'failed', 'cancelled')
            and 'blocked' = any($2::text[]) and id < $1::uuid
        order by id desc limit $21::int
    )
    union all
    (
        select * from /*headway*/job
        where state = 'cancelled' and state in ('blocked', 'failed', 'cancelled')
            and 'cancelled' = any($2::text[]) and id < $1::uuid
        order by id desc limit $21::int
    )
    order by id desc limit $21::int
), /*page*/
