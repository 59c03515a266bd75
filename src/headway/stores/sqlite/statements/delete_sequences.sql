delete from /*headway*/job
where id in (select value from json_each(?1))
    or (sequence_id in (select value from json_each(?1)) and position > 0)
returning id
