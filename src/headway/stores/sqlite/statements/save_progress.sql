-- Only from who holds the job.
insert into /*headway*/progress (job_id, fraction, note, at)
select j.id, said.value ->> 2, said.value ->> 3, ?2
from json_each(?1) said
join /*headway*/job j on j.id = said.value ->> 0
where j.state = 'running'
    and j.lease_token = said.value ->> 1
    and j.lease_until > ?2
on conflict (job_id) do update
set fraction = excluded.fraction, note = excluded.note, at = excluded.at
where at <= excluded.at
