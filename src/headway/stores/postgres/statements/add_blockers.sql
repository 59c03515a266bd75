-- They are there already if this is another try after an answer that was lost.
insert into /*headway*/job_blocker (job_id, position, blocker_id)
select * from unnest($1::uuid[], $2::int[], $3::uuid[])
on conflict do nothing
