select id, at, actor, action, target, count, before, after
from /*headway*/audit where id < ?1 order by id desc limit ?2
