-- The sequences of these jobs that have ended and that nothing unfinished waits for, whole.
with last as (
    select j.id, j.sequence_id
    from /*headway*/job j
    where j.id = any(array(
            select coalesce((
                select later.id from /*headway*/job later
                where later.sequence_id = asked.sequence_id and later.step > 0
                order by later.step desc limit 1
            ), asked.sequence_id)
            from /*headway*/job asked where asked.id = any($1::uuid[])
        ))
        and j.state in ('completed', 'failed', 'cancelled')
        and not exists (
            select from /*headway*/job_blocker b
            join /*headway*/job waiting on waiting.id = b.job_id
            where b.blocker_id = j.sequence_id
                and waiting.state in ('blocked', 'pending', 'running')
        )
    order by j.id
    for update of j
), gone as (
    delete from /*headway*/job where id = any(array(
        select sequence_id from last
        union
        select later.id from /*headway*/job later
        where later.sequence_id = any(array(select sequence_id from last)) and later.step > 0
    ))
    returning id
), attempts_gone as (
    delete from /*headway*/attempt where job_id = any(array(select id from gone))
), blockers_gone as (
    delete from /*headway*/job_blocker where job_id = any(array(select id from gone))
), progress_gone as (
    delete from /*headway*/progress where job_id = any(array(select id from gone))
)
select id from gone
