insert into /*headway*/attempt (
    job_id, version, outcome, worker, started_at, finished_at, error
)
select * from unnest(
    $1::uuid[], $2::int[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[], $7::text[]
)
