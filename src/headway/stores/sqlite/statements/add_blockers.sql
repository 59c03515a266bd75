insert into /*headway*/job_blocker (job_id, position, blocker_id) values (?1, ?2, ?3)
