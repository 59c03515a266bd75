update /*headway*/job
set lease_until = ?2 + cast(round(?3 * 1000000) as integer)
from json_each(?1) held
where /*headway*/job.id = held.value ->> 0
    and lease_token = held.value ->> 1
    and (?4 or lease_until > ?2)
returning id, lease_token
