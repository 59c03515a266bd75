delete from /*headway*/progress where job_id in (select value from json_each(?1))
