-- All jobs, newest first: of the next $21 jobs those that match, at most $22. If fewer match, each
-- row begins with the id of the last job that was read, to go on from; null if there are no more.
with last as (
    select id from /*headway*/job where id < $1::uuid
    order by id desc offset $21::int - 1 limit 1
), candidate as (
    select * from /*headway*/job where id < $1::uuid order by id desc limit $21::int
), /*page*/
