-- The rows exist already if an earlier try, whose answer was lost, has stored them.
insert into /*headway*/job_blocker (job_id, position, blocker_id)
select value ->> 0, value ->> 1, value ->> 2 from json_each(?1)
where true
on conflict do nothing
