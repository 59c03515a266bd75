-- Of these schedules those with a tick that waits for the end of their last sequence.
select /*schedule*/
from /*headway*/schedule
where paused_at is null
    and name in (select value from json_each(?3))
    and waiting_tick is not null
    and (declaration is null or name in (select value from json_each(?1)))
order by next_at
limit ?2
