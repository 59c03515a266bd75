insert into /*headway*/queue (
    name, limits, limited, paid_until, held_until, held_keys, refused
)
values ($1::text, $2::text, $3::bool, $4::timestamptz, $5::timestamptz, $6::text, $7::bool)
on conflict (name) do update set
    limits = excluded.limits, limited = excluded.limited, paid_until = excluded.paid_until,
    held_until = excluded.held_until, held_keys = excluded.held_keys, refused = excluded.refused
