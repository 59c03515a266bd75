-- The permits in use are the running jobs themselves. Few jobs run, so all of them are read.
select case when $2::bool then key end as key, count(*)
from /*headway*/job
where state = 'running' and queue = $1::text
group by 1
