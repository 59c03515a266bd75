select id, state, lease_token, lease_until, coalesce($2::timestamptz, statement_timestamp())
from /*headway*/job where id = $1::uuid for update
