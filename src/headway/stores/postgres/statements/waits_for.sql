-- Whether one of these sequences waits, directly or through others, for the given one.
with recursive waits (id) as (
    select unnest($1::uuid[])
    union
    select b.blocker_id
    from waits
    cross join lateral (
        select j.id, j.state from /*headway*/job j where j.id = waits.id
        union all
        select j.id, j.state from /*headway*/job j where j.sequence_id = waits.id and j.position > 0
    ) j
    join /*headway*/job_blocker b on b.job_id = j.id
    where j.state in ('blocked', 'cancelled')
)
select 1 from waits where id = $2::uuid limit 1
