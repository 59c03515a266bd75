select schedule, tick, at, sequence_id, skipped from /*headway*/schedule_run
where schedule = any($1::text[]) order by at desc, tick desc
