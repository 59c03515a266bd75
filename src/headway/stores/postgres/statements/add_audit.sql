insert into /*headway*/audit (id, at, actor, action, target, count, before, after)
values (
    $1::uuid, coalesce($2::timestamptz, statement_timestamp()), $3::text, $4::text, $5::text,
    $6::bigint, $7::text, $8::text
)
