select id, state from /*headway*/job where id = any($1::uuid[])
