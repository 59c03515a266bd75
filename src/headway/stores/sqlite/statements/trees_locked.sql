select /*record*/, j.waiting from /*headway*/job j
where j.id in (select value from json_each(?1))
    or (j.root_id in (select value from json_each(?1)) and j.root_id <> j.id)
order by j.id
