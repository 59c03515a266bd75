select name, max(paused_at)
from (
    select name, paused_at from /*headway*/queue
    union all
    select distinct queue, null from /*headway*/job
)
group by name order by name
