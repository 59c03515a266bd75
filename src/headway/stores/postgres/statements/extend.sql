update /*headway*/job j
set lease_until = coalesce($3::timestamptz, statement_timestamp()) + make_interval(secs => $4::float8)
from unnest($1::uuid[], $2::uuid[]) as held (id, token)
where j.id = held.id
    and j.lease_token = held.token
    and ($5::bool or j.lease_until > coalesce($3::timestamptz, statement_timestamp()))
returning j.id, j.lease_token
