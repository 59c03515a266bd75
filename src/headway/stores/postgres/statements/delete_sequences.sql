-- Sequences whose last jobs the caller has locked, whole, unless a job that has not completed waits
-- for them, be it a dead letter that can be retried. Whoever comes to wait locks the last job too. So a statement of its own, whose snapshot is
-- younger than the locks, sees all who came before; those who come later find the sequence gone.
with unneeded as (
    select ended.sequence_id
    from unnest($1::uuid[], $2::uuid[]) as ended (id, sequence_id)
    where coalesce((
            select later.id from /*headway*/job later
            where later.sequence_id = ended.sequence_id and later.position > 0
            order by later.position desc limit 1
        ), ended.sequence_id) = ended.id
        and not exists (
            select from /*headway*/job_blocker b
            join /*headway*/job waiting on waiting.id = b.job_id
            where b.blocker_id = ended.sequence_id
                and waiting.state in ('blocked', 'pending', 'running', 'failed', 'cancelled')
        )
), gone as (
    delete from /*headway*/job where id = any(array(
        select sequence_id from unneeded
        union
        select later.id from unneeded
        join /*headway*/job later on later.sequence_id = unneeded.sequence_id and later.position > 0
    ))
    returning id, has_blockers, last_error is not null as has_attempts
), attempts_gone as (
    delete from /*headway*/attempt where job_id = any(array(select id from gone where has_attempts))
), blockers_gone as (
    delete from /*headway*/job_blocker
    where job_id = any(array(select id from gone where has_blockers))
), progress_gone as (
    delete from /*headway*/progress where job_id = any(array(select id from gone))
)
select id from gone
