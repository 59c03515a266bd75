-- The PostgreSQL schema explains the columns.
alter table /*headway*/job add column schedule text;
alter table /*headway*/job add column scheduled_for integer;
alter table /*headway*/worker add column schedules text;

create table /*headway*/schedule (
    name text primary key,
    definition text not null,
    declaration text,
    replaced text not null default '[]',
    next_at integer not null,
    waiting_tick integer,
    paused_at integer,
    last_tick integer,
    last_at integer,
    last_sequence_id text,
    fired integer not null default 0,
    skipped integer not null default 0,
    runs integer not null default 0,
    created_at integer not null,
    changed_at integer not null
);
create index /*headway*/schedule_due on /*headway*/schedule (next_at) where paused_at is null;

create table /*headway*/schedule_run (
    schedule text not null,
    slot integer not null,
    tick integer not null,
    at integer not null,
    sequence_id text,
    skipped text,
    primary key (schedule, slot)
) without rowid;
