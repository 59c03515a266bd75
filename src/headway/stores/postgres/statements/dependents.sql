select /*record*/
from /*headway*/job j
where j.id = any(array(
    select b.job_id from /*headway*/job_blocker b where b.blocker_id = any($1::uuid[])
))
order by j.id
