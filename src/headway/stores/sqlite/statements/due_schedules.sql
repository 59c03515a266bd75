-- Schedules to fire. Declared ones are fired only by workers whose code declares them.
select /*schedule*/
from /*headway*/schedule
where paused_at is null
    and next_at <= ?3
    and (declaration is null or name in (select value from json_each(?1)))
order by next_at
limit ?2
