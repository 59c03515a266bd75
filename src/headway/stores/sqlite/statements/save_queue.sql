insert into /*headway*/queue (
    name, limits, limited, paid_until, held_until, held_keys, refused
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
on conflict (name) do update set
    limits = excluded.limits, limited = excluded.limited, paid_until = excluded.paid_until,
    held_until = excluded.held_until, held_keys = excluded.held_keys, refused = excluded.refused
