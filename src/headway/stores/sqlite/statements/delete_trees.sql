delete from /*headway*/job
where id in (select value from json_each(?1))
    or (root_id in (select value from json_each(?1)) and root_id <> id)
returning id
