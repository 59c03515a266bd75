-- Of these schedules those with a tick that waits for the end of their last sequence.
select /*schedule*/
from /*headway*/schedule
where paused_at is null
    and name = any($3::text[])
    and waiting_tick is not null
    and (declaration is null or name = any($1::text[]))
order by next_at
limit $2::int
for update skip locked
