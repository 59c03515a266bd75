select /*record*/ from /*headway*/job j where j.id = any($1::uuid[])
