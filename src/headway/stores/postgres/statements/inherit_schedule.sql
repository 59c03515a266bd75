-- Successors of jobs that a schedule started get the schedule and the tick of the completed job.
update /*headway*/job j
set schedule = done.schedule,
    scheduled_for = done.scheduled_for
from unnest($1::uuid[], $2::uuid[]) as pair (id, done_id)
join /*headway*/job done on done.id = pair.done_id
where j.id = pair.id
