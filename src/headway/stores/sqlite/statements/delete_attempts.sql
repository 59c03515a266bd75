delete from /*headway*/attempt where job_id in (select value from json_each(?1))
