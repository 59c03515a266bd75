-- Schedules to fire. A locked one is being fired or changed by another transaction. Declared
-- schedules are fired only by workers whose code declares them.
select /*schedule*/
from /*headway*/schedule
where paused_at is null
    and next_at <= coalesce($3::timestamptz, statement_timestamp())
    and (declaration is null or name = any($1::text[]))
order by next_at
limit $2::int
for update skip locked
