delete from /*headway*/job where id = ?1 or (root_id = ?1 and root_id <> id) returning id
