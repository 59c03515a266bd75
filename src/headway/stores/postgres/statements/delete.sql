with gone as (
    delete from /*headway*/job
    where id = any(array(
        select unnest($1::uuid[])
        union
        select id from /*headway*/job where root_id = any($1::uuid[]) and root_id <> id
    ))
    returning id
), attempts_gone as (
    delete from /*headway*/attempt where job_id in (select id from gone)
), blockers_gone as (
    delete from /*headway*/job_blocker where job_id in (select id from gone)
), progress_gone as (
    delete from /*headway*/progress where job_id in (select id from gone)
)
select id from gone
