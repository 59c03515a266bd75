delete from /*headway*/job where id = ?1 or (sequence_id = ?1 and step > 0) returning id
