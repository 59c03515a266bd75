select job_id, fraction, note, at from /*headway*/progress
where job_id in (select value from json_each(?1))
