-- The permits in use are the running jobs themselves. Few jobs run, so all of them are read.
select key, count(*) from /*headway*/job where state = 'running' and queue = $1::text group by key
