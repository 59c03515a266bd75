insert into /*headway*/queue (name, paused_at)
values ($1::text, case when $2::bool then coalesce($3::timestamptz, statement_timestamp()) end)
on conflict (name) do update set paused_at = case
    when $2::bool then coalesce(queue.paused_at, excluded.paused_at)
end
