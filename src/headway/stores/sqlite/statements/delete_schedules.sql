delete from /*headway*/schedule where name in (select value from json_each(?1)) returning name
