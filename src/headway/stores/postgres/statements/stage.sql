insert into /*headway*/staged_job (batch, job_id, content)
select $3::uuid, * from unnest($1::uuid[], $2::text[])
on conflict (batch, job_id) do nothing
