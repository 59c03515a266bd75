-- Along the primary key, so that jobs in other states are passed over only once in all.
select id, root_id from /*headway*/job
where id > coalesce($2::uuid, '00000000-0000-0000-0000-000000000000') and state = any($1::text[])
order by id limit $3::int
