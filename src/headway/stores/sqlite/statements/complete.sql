-- The fast path: jobs for which no other job waits.
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
    and not awaited
returning id
