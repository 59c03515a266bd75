select schedule, tick, at, sequence_id, skipped from /*headway*/schedule_run
where schedule in (select value from json_each(?1)) order by at desc, tick desc
