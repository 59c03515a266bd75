select /*queue*/ from /*headway*/queue where name = ?1
