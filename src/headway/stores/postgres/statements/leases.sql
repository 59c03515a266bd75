-- How refused changes are told apart.
select id, state, lease_token, lease_until, coalesce($2::timestamptz, statement_timestamp())
from /*headway*/job where id = any($1::uuid[])
