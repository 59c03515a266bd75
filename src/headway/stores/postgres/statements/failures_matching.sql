-- Failed jobs that match, by fingerprint, among the newest $21. The last column says whether these
-- were all failed jobs.
select
    j.fingerprint, count(*), min(j.finished_at), max(j.finished_at),
    max(j.id::text),
    not exists (
        select from /*headway*/job
        where state = 'failed' and state in ('blocked', 'failed', 'cancelled') and id < $1::uuid
        order by id desc offset $21::int limit 1
    )
from (
    select * from /*headway*/job
    where state = 'failed' and state in ('blocked', 'failed', 'cancelled') and id < $1::uuid
    order by id desc limit $21::int
) j
where /*match*/
group by j.fingerprint
order by count(*) desc, max(j.finished_at) desc
limit $22::int
