-- New columns are nullable and without a default: no row is rewritten, and code of the version before
-- goes on without them. The jobs come last: no claim and no start waits while this waits for workers.
alter table /*headway*/worker add column schedules text;
alter table /*headway*/job
    add column schedule text,
    add column scheduled_for timestamptz;

comment on column /*headway*/job.schedule is 'the schedule that started the sequence; null: none did';
comment on column /*headway*/job.scheduled_for is 'the tick of the schedule';
comment on column /*headway*/worker.schedules is
    'JSON: the declared schedules and their fingerprints; null: this worker fires no schedules';

create table /*headway*/schedule (
    name text collate "C" primary key,
    definition text not null,
    declaration text,
    replaced text not null default '[]',
    next_at timestamptz not null,
    waiting_tick timestamptz,
    paused_at timestamptz,
    last_tick timestamptz,
    last_at timestamptz,
    last_sequence_id uuid,
    fired bigint not null default 0,
    skipped bigint not null default 0,
    runs bigint not null default 0,
    created_at timestamptz not null,
    changed_at timestamptz not null
);

comment on column /*headway*/schedule.definition is 'JSON: timetable, job and policies';
comment on column /*headway*/schedule.declaration is
    'fingerprint of the declaration in code; null: put at run time';
comment on column /*headway*/schedule.replaced is
    'JSON: fingerprints of earlier declarations, which do not come back';
comment on column /*headway*/schedule.waiting_tick is
    'a tick that fires when the sequence of the last one has ended';

create index schedule_due on /*headway*/schedule (next_at) where paused_at is null;

-- The last runs of each schedule; the slot is the number of the run modulo 50.
create table /*headway*/schedule_run (
    schedule text collate "C" not null,
    slot integer not null,
    tick timestamptz not null,
    at timestamptz not null,
    sequence_id uuid,
    skipped text,
    primary key (schedule, slot)
);
