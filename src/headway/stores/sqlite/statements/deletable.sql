-- The sequences of these jobs that have ended and that no job waits for which has not completed: a dead
-- letter can be retried.
with asked (sequence_id) as (
    select distinct sequence_id from /*headway*/job where id in (select value from json_each(?1))
)
select asked.sequence_id
from asked
join /*headway*/job j on j.id = coalesce((
    select later.id from /*headway*/job later
    where later.sequence_id = asked.sequence_id and later.position > 0
    order by later.position desc limit 1
), asked.sequence_id)
where j.state in ('completed', 'failed', 'cancelled')
    and not exists (
        select 1 from /*headway*/job_blocker b
        join /*headway*/job waiting on waiting.id = b.job_id
        where b.blocker_id = j.sequence_id
            and waiting.state in ('blocked', 'pending', 'running', 'failed', 'cancelled')
    )
