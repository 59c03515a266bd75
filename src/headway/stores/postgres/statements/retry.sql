update /*headway*/job
set state = case when waiting > 0 then 'blocked' else 'pending' end,
    run_at = coalesce($3::timestamptz, statement_timestamp()),
    attempts = 0,
    losses = 0,
    finished_at = null,
    fingerprint = null,
    input = coalesce($2::text, input)
where id = any($1::uuid[]) and state in ('failed', 'cancelled')
returning id
