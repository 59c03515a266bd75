select name, max(paused_at)
from (
    select name, paused_at from /*headway*/queue
    union all
    select distinct queue, null::timestamptz from /*headway*/job
) q
group by name order by name
