update /*headway*/job
set state = 'cancelled', finished_at = ?2, lease_token = null, lease_until = null
where id in (select value from json_each(?1)) and state in ('blocked', 'pending', 'running')
returning id
