select tick, at, sequence_id, skipped from /*headway*/schedule_run
where schedule = ?1 order by at desc, tick desc
