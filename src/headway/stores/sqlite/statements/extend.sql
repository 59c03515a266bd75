update /*headway*/job
set lease_until = ?3 + cast(round(?4 * 1000000) as integer)
where id = ?1 and lease_token = ?2 and lease_until > ?3
returning id
