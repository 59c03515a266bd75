-- The priorities at which a queue has pending jobs, found by hopping through the index.
with recursive hop (priority) as (
    select max(j.priority) from /*headway*/job j where j.state = 'pending' and j.queue = ?1
    union all
    select (
        select max(j.priority) from /*headway*/job j
        where j.state = 'pending' and j.queue = ?1 and j.priority < hop.priority
    )
    from hop where hop.priority is not null
)
select priority from hop where priority is not null order by priority desc
