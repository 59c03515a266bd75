-- State and lease of jobs, to tell why a change was refused.
select id, state, lease_token, lease_until, coalesce($2::timestamptz, statement_timestamp())
from /*headway*/job where id = any($1::uuid[])
