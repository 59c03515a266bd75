-- As `complete`, for jobs that have a successor or may have jobs waiting for them.
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
returning j.id, j.sequence_id, j.awaited
