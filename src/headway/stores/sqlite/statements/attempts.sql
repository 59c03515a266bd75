select job_id, version, outcome, worker, started_at, finished_at, error
from /*headway*/attempt where job_id = ?1 order by version
