-- How refused changes are told apart.
select id, state, lease_token, lease_until, ?2
from /*headway*/job where id in (select value from json_each(?1))
