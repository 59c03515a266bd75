-- Count down the incomplete blockers of the jobs that wait for these completed sequences; a job
-- without any becomes pending. Counting, not looking up, makes two blockers that complete at the
-- same time both count. The rows are joined by the table's index only: joined with one another, and
-- without hash joins, n jobs would take n * n steps.
with less as (
    select b.job_id, count(*)::int as done
    from /*headway*/job_blocker b where b.blocker_id = any($1::uuid[]) group by b.job_id
), held as (
    select j.id, less.done from /*headway*/job j join less on less.job_id = j.id
    where j.waiting > 0
    order by j.id for no key update of j
)
update /*headway*/job j
set waiting = j.waiting - held.done,
    state = case
        when j.state = 'blocked' and j.waiting = held.done then 'pending' else j.state
    end,
    run_at = case
        when j.state = 'blocked' and j.waiting = held.done
            then greatest(j.run_at, coalesce($2::timestamptz, statement_timestamp()))
        else j.run_at
    end
from held
where j.id = held.id and j.waiting > 0
returning j.id, j.type, j.queue, j.run_at, j.state
