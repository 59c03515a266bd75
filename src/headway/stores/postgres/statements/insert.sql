-- New jobs that differ only in id and input. Answers how many were new, and when they are due.
with given as (
    select coalesce($3::timestamptz, statement_timestamp()) as now
), due as (
    select
        now,
        greatest(coalesce($4::timestamptz, now), now) + make_interval(secs => $5::float8) as run_at
    from given
), stored as (
    insert into /*headway*/job (
        id, input, run_at, created_at, type, queue, priority, max_attempts, max_losses, timeout,
        sequence_id, sequence_type, root_id, origin_id, position, state, waiting, has_blockers,
        awaited, dedup_key, trace
    )
    select
        u.id, u.input, due.run_at, due.now, $6::text, $7::text, $8::smallint, $9::int, $10::int,
        $11::float8, coalesce($12::uuid, u.id), $13::text, coalesce($14::uuid, u.id), $15::uuid,
        $16::int, $17::text, $18::int, $19::bool, $20::bool, $21::text, $22::text
    from due, unnest($1::uuid[], $2::text[]) as u (id, input)
    on conflict (id) do nothing
    returning 1
)
select count(*), (select run_at from due) from stored
