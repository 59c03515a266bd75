update /*headway*/schedule s
set next_at = u.next_at,
    waiting_tick = u.waiting_tick,
    last_tick = coalesce(u.tick, s.last_tick),
    last_at = coalesce(u.at, s.last_at),
    last_sequence_id = coalesce(u.sequence_id, s.last_sequence_id),
    fired = s.fired + u.fired,
    skipped = s.skipped + u.skipped,
    runs = s.runs + u.runs
from unnest(
    $1::text[], $2::timestamptz[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[],
    $6::uuid[], $7::bigint[], $8::bigint[], $9::bigint[]
) as u (name, next_at, waiting_tick, tick, at, sequence_id, fired, skipped, runs)
where s.name = u.name
