-- Only from who holds the job.
insert into /*headway*/progress (job_id, fraction, note, at)
select j.id, said.fraction, said.note, coalesce($5::timestamptz, statement_timestamp())
from unnest($1::uuid[], $2::uuid[], $3::float8[], $4::text[]) as said (id, token, fraction, note)
join /*headway*/job j on j.id = said.id
where j.state = 'running'
    and j.lease_token = said.token
    and j.lease_until > coalesce($5::timestamptz, statement_timestamp())
order by j.id
on conflict (job_id) do update
set fraction = excluded.fraction, note = excluded.note, at = excluded.at
where progress.at <= excluded.at
