delete from /*headway*/attempt where job_id = ?1
