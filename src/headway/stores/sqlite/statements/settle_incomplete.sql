-- All changes of a running job except its completion.
update /*headway*/job
set state = change.state,
    run_at = case
        when change.cleared then created_at
        when change.moment is not null then max(change.moment, ?2)
        when change.delay is not null then ?2 + cast(round(change.delay * 1000000) as integer)
        else run_at
    end,
    attempts = attempts + (change.outcome is 'failed'),
    losses = case
        when change.outcome = 'lost' then losses + 1
        when change.outcome in ('failed', 'rescheduled') then 0
        else losses
    end,
    last_error = coalesce(change.error, last_error),
    fingerprint = change.fingerprint,
    finished_at = case when change.state = 'failed' then ?2 end,
    lease_token = null,
    lease_until = null
from (
    select
        value ->> 0 as job_id, value ->> 1 as token, value ->> 2 as state, value ->> 3 as delay,
        value ->> 4 as moment, value ->> 5 as cleared, value ->> 6 as outcome,
        value ->> 7 as error, value ->> 8 as expired, value ->> 9 as fingerprint
    from json_each(?1)
) change
where /*headway*/job.id = change.job_id
    and lease_token = change.token
    and (lease_until <= ?2) = change.expired
returning id, lease_version, worker, started_at, ?2
