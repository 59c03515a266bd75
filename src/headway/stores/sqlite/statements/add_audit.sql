insert into /*headway*/audit (id, at, actor, action, target, count, before, after)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
