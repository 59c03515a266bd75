-- Count down the incomplete blockers of the jobs that wait for these completed sequences; a job
-- without any becomes pending.
update /*headway*/job
set waiting = waiting - less.done,
    state = case when state = 'blocked' and waiting = less.done then 'pending' else state end,
    run_at = case
        when state = 'blocked' and waiting = less.done then max(run_at, ?2) else run_at
    end
from (
    select b.job_id, count(*) as done
    from /*headway*/job_blocker b
    where b.blocker_id in (select value from json_each(?1))
    group by b.job_id
) less
where id = less.job_id and waiting > 0
returning id, type, queue, run_at, state
