select id, root_id from /*headway*/job
where id > coalesce(?2, '') and state in (select value from json_each(?1))
order by id limit ?3
