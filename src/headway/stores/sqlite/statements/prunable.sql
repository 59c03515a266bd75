-- Finished sequences, oldest first, by their last job.
select j.sequence_id
from /*headway*/job j
where j.finished_at < ?2 - cast(round(?3 * 1000000) as integer)
    and j.state = ?1
    and (?4 is null or coalesce(j.sequence_type, j.type) in (select value from json_each(?4)))
    and coalesce(j.sequence_type, j.type) not in (select value from json_each(?5))
    and (?6 is null or j.queue in (select value from json_each(?6)))
    and j.queue not in (select value from json_each(?7))
    and not exists (
        select 1 from /*headway*/job later
        where later.sequence_id = j.sequence_id and later.position > j.position and later.position > 0
    )
    and not exists (
        select 1 from /*headway*/job_blocker b
        join /*headway*/job waiting on waiting.id = b.job_id
        where b.blocker_id = j.sequence_id
            and waiting.state in ('blocked', 'pending', 'running', 'failed', 'cancelled')
    )
order by j.finished_at
limit ?8
