select /*record*/
from /*headway*/job j
where j.id = any(array(
    select distinct b.job_id from /*headway*/job_blocker b where b.blocker_id = any($1::uuid[])
    order by b.job_id limit $2::int
))
order by j.id
