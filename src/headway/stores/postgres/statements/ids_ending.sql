-- Of the next $3 ids, newest first, those with one of the endings $2, in any order. Each row begins
-- with the id to go on from; null if there are no more. Only the index of the ids is read.
select
    (select id from /*headway*/job where id < $1::uuid order by id desc offset $3::int - 1 limit 1),
    found.id
from (select) one
left join (
    select id
    from (select id from /*headway*/job where id < $1::uuid order by id desc limit $3::int) compared
    where id::text like any (array(select '%' || ending from unnest($2::text[]) as ending))
) found on true
