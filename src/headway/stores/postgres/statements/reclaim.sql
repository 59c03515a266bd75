-- What an earlier try of a claim took, whose answer was lost: the leases begin anew.
with given as (
    select coalesce($1::timestamptz, statement_timestamp()) as now
)
update /*headway*/job j
set lease_until = given.now + make_interval(secs => $2::float8)
from given
where j.state = 'running'
    and j.lease_token = $3::uuid
    and j.lease_until > given.now
returning
    j.id, j.type, j.queue, j.priority, j.input, j.run_at, j.created_at, j.attempts, j.losses,
    j.max_attempts, j.max_losses, j.timeout, j.lease_version, j.lease_until, j.sequence_id,
    coalesce(j.sequence_type, j.type), j.root_id, j.origin_id, j.position, j.has_blockers, j.trace
