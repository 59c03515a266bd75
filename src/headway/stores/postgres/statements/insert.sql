-- New jobs that differ only in id, input and key. The answer is the number of new jobs, and their run_at.
with given as (
    select coalesce($4::timestamptz, statement_timestamp()) as now
), due as (
    select
        now,
        greatest(coalesce($5::timestamptz, now), now) + make_interval(secs => $6::float8) as run_at
    from given
), stored as (
    insert into /*headway*/job (
        id, input, key, run_at, created_at, sequence_id, root_id, /*new*/
    )
    select
        u.id, u.input, u.key, due.run_at, due.now, coalesce($7::uuid, u.id), coalesce($8::uuid, u.id),
        /*new from $9*/
    from due, unnest($1::uuid[], $2::text[], $3::text[]) as u (id, input, key)
    on conflict (id) do nothing
    returning 1
)
select count(*), (select run_at from due) from stored
