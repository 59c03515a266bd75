-- The jobs that an earlier try of a claim took, whose answer was lost: their leases begin anew.
with given as (
    select coalesce($1::timestamptz, statement_timestamp()) as now
)
update /*headway*/job j
set lease_until = given.now + make_interval(secs => $2::float8)
from given
where j.state = 'running'
    and j.lease_token = $3::uuid
    and j.lease_until > given.now
returning /*claimed*/
