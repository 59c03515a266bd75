with gone as (
    delete from /*headway*/job where id = any($1::uuid[]) returning id
), attempts_gone as (
    delete from /*headway*/attempt where job_id in (select id from gone)
), blockers_gone as (
    delete from /*headway*/job_blocker where job_id in (select id from gone)
), progress_gone as (
    delete from /*headway*/progress where job_id in (select id from gone)
)
select id from gone
