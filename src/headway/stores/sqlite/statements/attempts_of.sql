select job_id, version, outcome, worker, started_at, finished_at, error
from /*headway*/attempt where job_id in (select value from json_each(?1)) order by job_id, version
