select /*record*/ from /*headway*/job j where j.id in (select value from json_each(?1))
