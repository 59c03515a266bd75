-- Seconds until the next schedule that a worker may fire.
select ((
    select next_at from /*headway*/schedule
    where paused_at is null
        and (declaration is null or name in (select value from json_each(?1)))
    order by next_at limit 1
) - ?2) / 1000000.0
