-- Everything that may become of a running job except completion.
update /*headway*/job
set state = ?3,
    run_at = case
        when ?6 then created_at
        when ?5 is not null then max(?5, ?10)
        when ?4 is not null then ?10 + cast(round(?4 * 1000000) as integer)
        else run_at
    end,
    attempts = attempts + (?7 is 'failed'),
    losses = losses + (?7 is 'lost'),
    last_error = coalesce(?8, last_error),
    finished_at = case when ?3 = 'failed' then ?10 end,
    lease_token = null,
    lease_until = null
where id = ?1 and lease_token = ?2 and (lease_until <= ?10) = ?9
returning id, lease_version, worker, started_at, ?10
