-- Failed jobs that match, by fingerprint, among the newest ?21. The last column says whether these
-- were all failed jobs.
with newest as materialized (
    select seq from /*headway*/job
    where state = 'failed' and state in ('blocked', 'failed', 'cancelled') and id < ?1
    order by id desc limit ?21
)
select
    j.fingerprint, count(*), min(j.finished_at), max(j.finished_at), max(j.id),
    (select count(*) from newest) < ?21
from newest cross join /*headway*/job j on j.seq = newest.seq
where /*match*/
group by j.fingerprint
order by count(*) desc, max(j.finished_at) desc
limit ?22
