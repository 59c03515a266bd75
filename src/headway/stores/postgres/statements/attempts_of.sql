select job_id, version, outcome, worker, started_at, finished_at, error
from /*headway*/attempt where job_id = any($1::uuid[]) order by job_id, version
