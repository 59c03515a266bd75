-- Jobs that come from another store, as they were there.
insert into /*headway*/job (
    id, sequence_id, root_id, origin_id, run_at, created_at, started_at, finished_at, timeout, position,
    attempts, losses, max_attempts, max_losses, lease_version, waiting, priority, has_blockers,
    awaited, state, type, queue, sequence_type, worker, dedup_key, trace, last_error, fingerprint,
    input, output
)
select * from unnest(
    $1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::timestamptz[], $6::timestamptz[],
    $7::timestamptz[], $8::timestamptz[], $9::float8[], $10::int[], $11::int[], $12::int[],
    $13::int[], $14::int[], $15::int[], $16::int[], $17::smallint[], $18::bool[], $19::bool[],
    $20::text[], $21::text[], $22::text[], $23::text[], $24::text[], $25::text[], $26::text[],
    $27::text[], $28::text[], $29::text[], $30::text[]
)
on conflict (id) do nothing
returning id
