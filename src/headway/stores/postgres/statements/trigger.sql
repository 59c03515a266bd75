update /*headway*/job
set run_at = least(run_at, coalesce($2::timestamptz, statement_timestamp()))
where id = any($1::uuid[]) and state = 'pending'
returning id
