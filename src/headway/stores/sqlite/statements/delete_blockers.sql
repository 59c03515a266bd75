delete from /*headway*/job_blocker where job_id = ?1
