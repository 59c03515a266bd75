-- These sequences completed: those that waited wait for fewer, and for none they are pending.
-- The rows are joined by the table's index only, never with one another: without hash joins that
-- would take n * n steps for n jobs. Counted down rather than looked up, so that two blockers that
-- complete at once both count.
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
