-- The fast path: jobs for which no other job waits. A job has a lease token exactly while it runs,
-- so the state is not compared: that would tempt the planner to the small index of running jobs.
update /*headway*/job j
set state = 'completed',
    output = done.output,
    finished_at = coalesce($4::timestamptz, statement_timestamp()),
    lease_token = null,
    lease_until = null
from unnest($1::uuid[], $2::uuid[], $3::text[]) as done (id, token, output)
where j.id = done.id
    and j.lease_token = done.token
    and j.lease_until > coalesce($4::timestamptz, statement_timestamp())
    and not j.awaited
returning j.id
