select /*record*/
from /*headway*/job j
where j.id in (
    select distinct b.job_id from /*headway*/job_blocker b
    where b.blocker_id in (select value from json_each(?1))
    order by b.job_id limit coalesce(?2, -1)
)
order by j.id
