-- Locked rows are left out: their holder is completing the job in a transaction of its own, and a
-- reaper that waited for it would delay all other jobs. The window only bounds the search; it is
-- not part of the fence.
select /*record*/
from /*headway*/job j
where j.lease_until > coalesce($1::timestamptz, statement_timestamp()) - make_interval(secs => $3::float8)
    and j.lease_until <= coalesce($1::timestamptz, statement_timestamp())
    and j.state = 'running'
order by j.lease_until, j.id
limit $2::int
for no key update skip locked
