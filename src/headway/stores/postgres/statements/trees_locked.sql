select /*record*/, j.waiting from /*headway*/job j
where j.id = any(array(
    select unnest($1::uuid[])
    union
    select id from /*headway*/job where root_id = any($1::uuid[]) and root_id <> id
))
order by j.id for update
