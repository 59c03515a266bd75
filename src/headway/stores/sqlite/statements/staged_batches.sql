select distinct batch from /*headway*/staged_job order by batch limit ?1
