-- One claim of a queue with limits at a time. A claimer that is frozen loses its connection after
-- two seconds, and the others go on.
with bounded as materialized (
    select set_config('idle_in_transaction_session_timeout', '2s', true)
)
select q.* from bounded, (
    select /*queue*/ from /*headway*/queue where name = $1::text for no key update
) q
