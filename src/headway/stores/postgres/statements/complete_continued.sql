-- Complete jobs and store their successors, which share everything that is not in the arrays. One
-- statement, so that a refused completion stores no successor, and one round trip for all of them.
-- The answer is the ids of the completed jobs.
with given as (
    select coalesce($13::timestamptz, statement_timestamp()) as now
), due as (
    select
        now,
        greatest(coalesce($14::timestamptz, now), now) + make_interval(secs => $15::float8) as run_at
    from given
), done as (
    update /*headway*/job j
    set state = 'completed',
        output = next.output,
        finished_at = coalesce($13::timestamptz, statement_timestamp()),
        lease_token = null,
        lease_until = null
    from unnest(
        $1::uuid[], $2::uuid[], $3::text[], $4::uuid[], $5::text[], $6::uuid[], $7::uuid[], $8::text[],
        /*place arrays from $9*/
    ) as next (done_id, token, output, id, input, sequence_id, root_id, key, /*place*/)
    where j.id = next.done_id
        and j.lease_token = next.token
        and j.lease_until > coalesce($13::timestamptz, statement_timestamp())
    returning next.*, j.awaited, j.schedule, j.scheduled_for
), stored as (
    insert into /*headway*/job (
        id, input, run_at, created_at, sequence_id, root_id, key, state, awaited, schedule,
        scheduled_for, /*place*/, /*options*/
    )
    select
        id, input, run_at, now, coalesce(sequence_id, id), coalesce(root_id, id), key, 'pending',
        awaited, schedule, scheduled_for, /*place*/, /*options from $16*/
    from done, due
)
select done_id from done
