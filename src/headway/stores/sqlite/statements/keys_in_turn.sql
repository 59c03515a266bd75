-- Hops from key to key in the index, so that the number of jobs of a key does not matter.
with recursive hop (key) as (
    select min(j.key) from /*headway*/job j
    where j.state = 'pending' and j.queue = ?1 and j.priority = ?2 and j.key > ?7
    union all
    select (
        select min(j.key) from /*headway*/job j
        where j.state = 'pending' and j.queue = ?1 and j.priority = ?2 and j.key > hop.key
    )
    from hop where hop.key is not null and (?8 is null or hop.key <= ?8)
)
select hop.key
from hop
where hop.key is not null
    and (?8 is null or hop.key <= ?8)
    and hop.key not in (select value from json_each(?9))
    and exists (select 1 from /*headway*/job p where p.key = hop.key and /*due*/)
limit ?6
