update /*headway*/job
set state = case when waiting > 0 then 'blocked' else 'pending' end,
    run_at = ?3, attempts = 0, losses = 0, finished_at = null, fingerprint = null,
    input = coalesce(?2, input)
where id in (select value from json_each(?1)) and state in ('failed', 'cancelled')
returning id
