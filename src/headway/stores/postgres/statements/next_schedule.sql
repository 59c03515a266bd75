-- Seconds until the next schedule that a worker may fire.
select extract(epoch from (
    select next_at from /*headway*/schedule
    where paused_at is null and (declaration is null or name = any($1::text[]))
    order by next_at limit 1
) - coalesce($2::timestamptz, statement_timestamp()))::float8
