insert into /*headway*/attempt (job_id, version, outcome, worker, started_at, finished_at, error)
select
    value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6
from json_each(?1)
