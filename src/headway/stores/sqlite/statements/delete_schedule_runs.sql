delete from /*headway*/schedule_run where schedule in (select value from json_each(?1))
