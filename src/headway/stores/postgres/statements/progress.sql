select job_id, fraction, note, at from /*headway*/progress where job_id = any($1::uuid[])
