-- New columns are nullable or have a constant default: no row is rewritten, and code of the version
-- before goes on without them. The jobs come last: no claim and no start waits meanwhile.
alter table /*headway*/worker add column limits text;
alter table /*headway*/queue
    add column limits text,
    add column limited boolean not null default false,
    add column paid_until timestamptz,
    add column held_until timestamptz,
    add column held_keys text,
    add column refused boolean not null default false;
alter table /*headway*/job add column key text collate "C";

comment on column /*headway*/worker.limits is 'JSON: the declared queues and their fingerprints';
comment on column /*headway*/queue.limits is 'JSON: limits as declared and as overridden';
comment on column /*headway*/queue.limited is 'claims must look at the limits or holds';
comment on column /*headway*/queue.paid_until is 'the state of the rate';
comment on column /*headway*/queue.held_keys is 'JSON: keys that are held, until when';
comment on column /*headway*/queue.refused is
    'a claim found no free permit since permits were last passed on';
comment on column /*headway*/job.key is 'for limits by key, and for keys that take turns';
