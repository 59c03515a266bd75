delete from /*headway*/worker
where id in (select value from json_each(?1))
    or seen_at < ?3 - cast(round(?2 * 1000000) as integer)
returning id
