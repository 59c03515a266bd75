select id from /*headway*/job where id in (select value from json_each(?1))
