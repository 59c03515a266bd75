-- One row per job, kept narrow; the claim, the fence and the sequence all live in it.
create table /*headway*/job (
    id uuid primary key,
    sequence_id uuid not null,
    root_id uuid not null,
    origin_id uuid,
    lease_token uuid,
    run_at timestamptz not null,
    created_at timestamptz not null,
    started_at timestamptz,
    finished_at timestamptz,
    lease_until timestamptz,
    timeout double precision,
    position integer not null,
    attempts integer not null default 0,
    losses integer not null default 0,
    max_attempts integer,
    max_losses integer not null,
    lease_version integer not null default 0,
    waiting integer not null default 0,
    priority smallint not null,
    has_blockers boolean not null default false,
    awaited boolean not null default false,
    state text not null check (
        state in ('blocked', 'pending', 'running', 'completed', 'failed', 'cancelled')
    ),
    type text not null,
    queue text not null,
    sequence_type text,
    worker text,
    dedup_key text,
    trace text,
    last_error text,
    fingerprint text,
    input text not null,
    output text,
    check ((state = 'running') = (lease_token is not null)),
    check ((state = 'running') = (lease_until is not null)),
    check (state <> 'blocked' or waiting > 0)
) with (
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

comment on column /*headway*/job.waiting is 'blockers that are not complete';
comment on column /*headway*/job.awaited is 'some job waits for this sequence';
comment on column /*headway*/job.sequence_type is 'null: the same as type';
comment on column /*headway*/job.fingerprint is 'of a dead letter: alike for failures that are alike';
comment on column /*headway*/job.position is 'the place in the sequence, 0 for its first job';

-- A lane is (queue, priority); within it the oldest due job comes first.
create index job_pending on /*headway*/job (queue, priority, run_at, id) where state = 'pending';
create index job_running on /*headway*/job (lease_until) where state = 'running';
create index job_finished on /*headway*/job (finished_at) where finished_at is not null;
-- First jobs are found by id: only those that continue or descend need these.
create index job_sequence on /*headway*/job (sequence_id, position) where position > 0;
create index job_root on /*headway*/job (root_id, id) where root_id <> id;
create index job_dedup on /*headway*/job (dedup_key, type, created_at) where dedup_key is not null;
-- For questions about what is stuck. Nothing that succeeds without waiting enters these.
create index job_stopped on /*headway*/job (state, id)
where state in ('blocked', 'failed', 'cancelled');
create index job_failed on /*headway*/job (fingerprint, id, finished_at)
where state = 'failed';

create table /*headway*/job_blocker (
    job_id uuid not null,
    position integer not null,
    blocker_id uuid not null,
    primary key (job_id, position)
);
create index job_blocker_blocker on /*headway*/job_blocker (blocker_id, job_id);

-- Held by whoever is about to start a job under a key, until its transaction ends.
create table /*headway*/dedup (
    type text not null,
    key text not null,
    used_at timestamptz not null,
    primary key (type, key)
);

-- Failed and lost executions; a success needs no row.
create table /*headway*/attempt (
    job_id uuid not null,
    version integer not null,
    outcome text not null check (outcome in ('failed', 'lost')),
    worker text,
    started_at timestamptz,
    finished_at timestamptz not null,
    error text not null,
    primary key (job_id, version)
);

create table /*headway*/worker (
    id text primary key,
    host text not null,
    pid integer not null,
    queues text not null,
    types text not null,
    concurrency integer not null,
    running integer not null,
    started_at timestamptz not null,
    seen_at timestamptz not null
);

create table /*headway*/queue (
    name text primary key,
    paused_at timestamptz
);

-- How far running jobs say they are; one row per job that says so.
create table /*headway*/progress (
    job_id uuid primary key,
    fraction double precision not null,
    note text not null,
    at timestamptz not null
) with (fillfactor = 50);

-- What operators did.
create table /*headway*/audit (
    id uuid primary key,
    at timestamptz not null,
    actor text not null,
    action text not null,
    target text not null,
    count bigint not null,
    before text not null,
    after text not null
);

-- Jobs that move here from another store, before they are inserted; nobody runs them yet.
create table /*headway*/staged_job (
    batch uuid not null,
    job_id uuid not null,
    content text not null,
    primary key (batch, job_id)
);

-- Outcomes of the batches that move jobs from here to another store.
create table /*headway*/batch_outcome (
    batch uuid primary key,
    outcome text not null check (outcome in ('moved', 'cancelled')),
    at timestamptz not null
);
