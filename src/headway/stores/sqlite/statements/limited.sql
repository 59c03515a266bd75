select 1 from /*headway*/queue where name = ?1 and limited
