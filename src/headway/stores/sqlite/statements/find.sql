-- Newest first. Null does not restrict.
select /*record*/
from /*headway*/job j
where (?1 is null or j.id < ?1)
    and (?2 is null or j.state in (select value from json_each(?2)))
    and (?3 is null or j.type in (select value from json_each(?3)))
    and (?4 is null or j.queue in (select value from json_each(?4)))
    and (?5 is null or j.sequence_id = ?5)
    and (?6 is null or j.root_id = ?6)
order by j.id desc
limit ?7
