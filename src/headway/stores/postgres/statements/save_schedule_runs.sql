-- The newest run takes the place of the oldest, so that a schedule has a fixed number of them.
insert into /*headway*/schedule_run (schedule, slot, tick, at, sequence_id, skipped)
select * from unnest(
    $1::text[], $2::int[], $3::timestamptz[], $4::timestamptz[], $5::uuid[], $6::text[]
)
on conflict (schedule, slot) do update set
    tick = excluded.tick, at = excluded.at, sequence_id = excluded.sequence_id,
    skipped = excluded.skipped
