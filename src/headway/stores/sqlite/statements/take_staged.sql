delete from /*headway*/staged_job where batch = ?1 returning content
