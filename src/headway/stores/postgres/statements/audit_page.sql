select id, at, actor, action, target, count, before, after
from /*headway*/audit where id < $1::uuid order by id desc limit $2::int
