delete from /*headway*/schedule_run where schedule = any($1::text[])
