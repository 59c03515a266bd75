-- The ids that are taken.
select id from /*headway*/job where id = any($1::uuid[])
