-- New jobs that differ only in id and input. The answer is the number of new jobs, and their run_at.
with given as (
    select coalesce($3::timestamptz, statement_timestamp()) as now
), due as (
    select
        now,
        greatest(coalesce($4::timestamptz, now), now) + make_interval(secs => $5::float8) as run_at
    from given
), stored as (
    insert into /*headway*/job (
        id, input, run_at, created_at, sequence_id, root_id, /*new*/
    )
    select
        u.id, u.input, due.run_at, due.now, coalesce($6::uuid, u.id), coalesce($7::uuid, u.id),
        /*new from $8*/
    from due, unnest($1::uuid[], $2::text[]) as u (id, input)
    on conflict (id) do nothing
    returning 1
)
select count(*), (select run_at from due) from stored
