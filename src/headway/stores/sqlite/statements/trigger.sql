update /*headway*/job set run_at = min(run_at, ?2)
where id in (select value from json_each(?1)) and state = 'pending'
returning id
