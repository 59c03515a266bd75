-- The rows exist already if an earlier try, whose answer was lost, has stored them.
insert into /*headway*/job_blocker (job_id, position, blocker_id)
select * from unnest($1::uuid[], $2::int[], $3::uuid[])
on conflict do nothing
