-- Hops from key to key in the index, so that the number of jobs of a key does not matter. For the
-- same reason a limit keeps the look for a due job from becoming a join with all of them.
with recursive hop as (
    (
        select j.key from /*headway*/job j
        where j.state = 'pending' and j.queue = $1::text and j.priority = $2::smallint
            and j.key > $7::text
        order by j.key limit 1
    )
    union all
    select (
        select j.key from /*headway*/job j
        where j.state = 'pending' and j.queue = $1::text and j.priority = $2::smallint
            and j.key > hop.key
        order by j.key limit 1
    )
    from hop where hop.key is not null and ($8::text is null or hop.key <= $8::text)
)
select hop.key
from hop
cross join lateral (
    select from /*headway*/job p where p.key = hop.key and /*due*/ order by p.run_at, p.id limit 1
) due
where hop.key is not null
    and ($8::text is null or hop.key <= $8::text)
    and hop.key <> all($9::text[])
limit $6::int
