insert into /*headway*/queue (name, paused_at) values (?1, case when ?2 then ?3 end)
on conflict (name) do update set paused_at = case
    when ?2 then coalesce(paused_at, excluded.paused_at)
end
