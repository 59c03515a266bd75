insert into /*headway*/schedule (
    /*schedule*/
)
select * from unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[],
    $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::uuid[], $11::bigint[],
    $12::bigint[], $13::bigint[], $14::timestamptz[], $15::timestamptz[]
)
on conflict (name) do update set
    definition = excluded.definition, declaration = excluded.declaration,
    replaced = excluded.replaced, next_at = excluded.next_at, waiting_tick = excluded.waiting_tick,
    paused_at = excluded.paused_at, last_tick = excluded.last_tick, last_at = excluded.last_at,
    last_sequence_id = excluded.last_sequence_id, fired = excluded.fired,
    skipped = excluded.skipped, runs = excluded.runs, changed_at = excluded.changed_at
