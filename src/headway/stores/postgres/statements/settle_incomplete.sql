-- All changes of a running job except its completion.
update /*headway*/job j
set state = change.state,
    run_at = case
        when change.cleared then j.created_at
        when change.moment is not null
            then greatest(change.moment, coalesce($11::timestamptz, statement_timestamp()))
        when change.delay is not null
            then coalesce($11::timestamptz, statement_timestamp())
                + make_interval(secs => change.delay)
        else j.run_at
    end,
    attempts = j.attempts + case when change.outcome = 'failed' then 1 else 0 end,
    losses = case
        when change.outcome = 'lost' then j.losses + 1
        when change.outcome in ('failed', 'rescheduled') then 0
        else j.losses
    end,
    last_error = coalesce(change.error, j.last_error),
    fingerprint = change.fingerprint,
    finished_at = case
        when change.state = 'failed' then coalesce($11::timestamptz, statement_timestamp())
    end,
    lease_token = null,
    lease_until = null
from unnest(
    $1::uuid[], $2::uuid[], $3::text[], $4::float8[], $5::timestamptz[], $6::bool[], $7::text[],
    $8::text[], $9::bool[], $10::text[]
) as change (id, token, state, delay, moment, cleared, outcome, error, expired, fingerprint)
where j.id = change.id
    and j.lease_token = change.token
    and (j.lease_until <= coalesce($11::timestamptz, statement_timestamp())) = change.expired
returning
    j.id, j.lease_version, j.worker, j.started_at,
    coalesce($11::timestamptz, statement_timestamp())
