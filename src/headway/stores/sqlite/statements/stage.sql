insert into /*headway*/staged_job (batch, job_id, content)
select ?2, value ->> 0, value ->> 1 from json_each(?1)
where true
on conflict do nothing
