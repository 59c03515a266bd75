select id, state, lease_token, lease_until, ?2 from /*headway*/job where id = ?1
