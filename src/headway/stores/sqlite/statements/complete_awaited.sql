-- As `complete`, for jobs that have a successor or may have jobs waiting for them.
update /*headway*/job
set state = 'completed',
    output = done.value ->> 2,
    finished_at = ?2,
    lease_token = null,
    lease_until = null
from json_each(?1) done
where /*headway*/job.id = done.value ->> 0
    and lease_token = done.value ->> 1
    and lease_until > ?2
returning id, sequence_id, awaited
