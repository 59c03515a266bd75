-- Finished sequences, oldest first: found by their last job, gone with all their jobs. From a
-- remembered bound, because dead index entries below it pile up while vacuum is held back.
with victim as (
    select j.id, j.sequence_id, j.finished_at
    from /*headway*/job j
    where j.finished_at >= $9::timestamptz
        and j.finished_at < coalesce($2::timestamptz, statement_timestamp())
            - make_interval(secs => $3::float8)
        and j.state = $1::text
        and ($4::text[] is null or coalesce(j.sequence_type, j.type) = any($4::text[]))
        and coalesce(j.sequence_type, j.type) <> all($5::text[])
        and ($6::text[] is null or j.queue = any($6::text[]))
        and j.queue <> all($7::text[])
        and not exists (
            select from /*headway*/job later
            where later.sequence_id = j.sequence_id and later.step > j.step and later.step > 0
        )
        and not exists (
            select from /*headway*/job_blocker b
            join /*headway*/job waiting on waiting.id = b.job_id
            where b.blocker_id = j.sequence_id
                and waiting.state in ('blocked', 'pending', 'running')
        )
    order by j.finished_at
    limit $8::int
    for update of j skip locked
), gone as (
    delete from /*headway*/job where id = any(array(
        select sequence_id from victim
        union
        select later.id from victim
        join /*headway*/job later on later.sequence_id = victim.sequence_id and later.step > 0
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
select count(*), (select max(finished_at) from victim) from gone
