-- The priorities at which each queue has pending jobs, found by hopping through the index; and the
-- queues with limits, without a priority.
select q.name, p.priority
from unnest($1::text[]) as q (name)
cross join lateral (
    with recursive hop as (
        (
            select j.priority from /*headway*/job j
            where j.state = 'pending' and j.queue = q.name
            order by j.priority desc limit 1
        )
        union all
        select (
            select j.priority from /*headway*/job j
            where j.state = 'pending' and j.queue = q.name and j.priority < hop.priority
            order by j.priority desc limit 1
        )
        from hop where hop.priority is not null
    )
    select priority from hop where priority is not null
) p
union all
select q.name, null from /*headway*/queue q where q.name = any($1::text[]) and q.limited
