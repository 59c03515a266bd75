delete from /*headway*/worker
where id = any($1::text[])
    or seen_at < coalesce($3::timestamptz, statement_timestamp()) - make_interval(secs => $2::float8)
returning id
