-- State and lease of jobs, to tell why a change was refused.
select id, state, lease_token, lease_until, ?2
from /*headway*/job where id in (select value from json_each(?1))
