delete from /*headway*/job_blocker where job_id in (select value from json_each(?1))
