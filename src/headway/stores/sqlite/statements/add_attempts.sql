insert into /*headway*/attempt (job_id, version, outcome, worker, started_at, finished_at, error)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
