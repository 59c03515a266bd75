-- Times are microseconds since 1970 in UTC. See the PostgreSQL schema for what the columns mean.
create table /*headway*/job (
    seq integer primary key,
    id text not null unique,
    sequence_id text not null,
    root_id text not null,
    origin_id text,
    lease_token text,
    run_at integer not null,
    created_at integer not null,
    started_at integer,
    finished_at integer,
    lease_until integer,
    timeout real,
    position integer not null,
    attempts integer not null default 0,
    losses integer not null default 0,
    max_attempts integer,
    max_losses integer not null,
    lease_version integer not null default 0,
    waiting integer not null default 0,
    priority integer not null,
    has_blockers integer not null default 0,
    awaited integer not null default 0,
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
);
create index /*headway*/job_pending on /*headway*/job (queue, priority desc, run_at, id, type)
where state = 'pending';
create index /*headway*/job_running on /*headway*/job (lease_until) where state = 'running';
create index /*headway*/job_finished on /*headway*/job (finished_at) where finished_at is not null;
create index /*headway*/job_sequence on /*headway*/job (sequence_id, position) where position > 0;
create index /*headway*/job_root on /*headway*/job (root_id, id) where root_id <> id;
create index /*headway*/job_dedup on /*headway*/job (dedup_key, type, created_at)
where dedup_key is not null;
create index /*headway*/job_stopped on /*headway*/job (state, id)
where state in ('blocked', 'failed', 'cancelled');
create index /*headway*/job_failed on /*headway*/job (fingerprint, id, finished_at)
where state = 'failed';

create table /*headway*/job_blocker (
    job_id text not null,
    position integer not null,
    blocker_id text not null,
    primary key (job_id, position)
) without rowid;
create index /*headway*/job_blocker_blocker on /*headway*/job_blocker (blocker_id, job_id);

create table /*headway*/attempt (
    job_id text not null,
    version integer not null,
    outcome text not null check (outcome in ('failed', 'lost')),
    worker text,
    started_at integer,
    finished_at integer not null,
    error text not null,
    primary key (job_id, version)
) without rowid;

create table /*headway*/worker (
    id text primary key,
    host text not null,
    pid integer not null,
    queues text not null,
    types text not null,
    concurrency integer not null,
    running integer not null,
    started_at integer not null,
    seen_at integer not null
);

create table /*headway*/queue (
    name text primary key,
    paused_at integer
);

create table /*headway*/progress (
    job_id text primary key,
    fraction real not null,
    note text not null,
    at integer not null
) without rowid;

create table /*headway*/audit (
    id text primary key,
    at integer not null,
    actor text not null,
    action text not null,
    target text not null,
    count integer not null,
    before text not null,
    after text not null
) without rowid;

create table /*headway*/staged_job (
    batch text not null,
    job_id text not null,
    content text not null,
    primary key (batch, job_id)
) without rowid;

create table /*headway*/batch_outcome (
    batch text primary key,
    outcome text not null check (outcome in ('moved', 'cancelled')),
    at integer not null
) without rowid;
