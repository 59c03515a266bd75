select /*queue*/ from /*headway*/queue order by name
