-- So that there is a row to lock.
insert into /*headway*/queue (name) values ($1::text) on conflict do nothing
