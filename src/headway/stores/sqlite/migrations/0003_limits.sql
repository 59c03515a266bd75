-- The PostgreSQL schema explains the columns.
alter table /*headway*/worker add column limits text;
alter table /*headway*/queue add column limits text;
alter table /*headway*/queue add column limited integer not null default 0;
alter table /*headway*/queue add column paid_until integer;
alter table /*headway*/queue add column held_until integer;
alter table /*headway*/queue add column held_keys text;
alter table /*headway*/queue add column refused integer not null default 0;
alter table /*headway*/job add column key text;
