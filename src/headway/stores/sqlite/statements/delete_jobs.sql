delete from /*headway*/job where id in (select value from json_each(?1))
returning id
