-- They are there already if this is another try after an answer that was lost.
insert into /*headway*/job_blocker (job_id, position, blocker_id)
select value ->> 0, value ->> 1, value ->> 2 from json_each(?1)
where true
on conflict do nothing
