select name, paused_at from /*headway*/queue order by name
