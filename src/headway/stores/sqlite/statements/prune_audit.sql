delete from /*headway*/audit
where id in (select id from /*headway*/audit order by id limit 1000)
    and at < ?2 - cast(round(?1 * 1000000) as integer)
returning id
