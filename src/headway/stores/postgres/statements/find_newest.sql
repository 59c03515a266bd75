-- All jobs, newest first: of the next $20 jobs those that match, at most $21. If fewer match, each
-- row begins with the id of the last job that was read, to go on from; null if there are no more.
with last as (
    select id from /*headway*/job where id < $1::uuid
    order by id desc offset $20::int - 1 limit 1
), candidate as (
    select * from /*headway*/job where id < $1::uuid order by id desc limit $20::int
), /*page*/
