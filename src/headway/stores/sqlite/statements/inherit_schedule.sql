-- Successors of jobs that a schedule started get the schedule and the tick of the completed job.
update /*headway*/job
set schedule = done.schedule,
    scheduled_for = done.scheduled_for
from json_each(?1) pair
join /*headway*/job done on done.id = pair.value ->> 1
where /*headway*/job.id = pair.value ->> 0
