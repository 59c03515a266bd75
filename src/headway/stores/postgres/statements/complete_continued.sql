-- Complete jobs and store what follows them, jobs that share all that is not in the arrays: one
-- statement, so that nothing is stored for a completion that is refused, and one round trip for
-- all of them. The answer is which completions took.
with given as (
    select coalesce($12::timestamptz, statement_timestamp()) as now
), due as (
    select
        now,
        greatest(coalesce($13::timestamptz, now), now) + make_interval(secs => $14::float8) as run_at
    from given
), done as (
    update /*headway*/job j
    set state = 'completed',
        output = next.output,
        finished_at = coalesce($12::timestamptz, statement_timestamp()),
        lease_token = null,
        lease_until = null
    from unnest(
        $1::uuid[], $2::uuid[], $3::text[], $4::uuid[], $5::text[], $6::uuid[], $7::text[],
        $8::uuid[], $9::uuid[], $10::int[], $11::text[]
    ) as next (
        done_id, token, output, id, input, sequence_id, sequence_type, root_id, origin_id, position,
        trace
    )
    where j.id = next.done_id
        and j.lease_token = next.token
        and j.lease_until > coalesce($12::timestamptz, statement_timestamp())
    returning
        next.done_id, next.id, next.input, next.sequence_id, next.sequence_type, next.root_id,
        next.origin_id, next.position, next.trace, j.awaited
), stored as (
    insert into /*headway*/job (
        id, input, run_at, created_at, type, queue, priority, max_attempts, max_losses, timeout,
        sequence_id, sequence_type, root_id, origin_id, position, state, awaited, dedup_key, trace
    )
    select
        done.id, done.input, due.run_at, due.now, $15::text, $16::text, $17::smallint, $18::int,
        $19::int, $20::float8, coalesce(done.sequence_id, done.id), done.sequence_type,
        coalesce(done.root_id, done.id), done.origin_id, done.position, 'pending', done.awaited,
        $21::text, done.trace
    from done, due
)
select done_id from done
