select /*record*/
from /*headway*/job j
where j.state = 'running' and j.lease_until <= coalesce($1::timestamptz, statement_timestamp())
order by j.lease_until, j.id
limit $2::int
