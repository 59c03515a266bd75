select b.job_id, (
    select last.output from /*headway*/job last
    where last.id = coalesce((
        select later.id from /*headway*/job later
        where later.sequence_id = b.blocker_id and later.position > 0
        order by later.position desc limit 1
    ), b.blocker_id)
)
from /*headway*/job_blocker b
where b.job_id = any($1::uuid[])
order by b.job_id, b.position
