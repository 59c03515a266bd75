-- Whether one of these sequences waits, directly or through others, for the given one.
with recursive waits (id) as (
    select value from json_each(?1)
    union
    select b.blocker_id
    from waits
    join /*headway*/job j on j.id = waits.id or (j.sequence_id = waits.id and j.position > 0)
    join /*headway*/job_blocker b on b.job_id = j.id
    where j.state in ('blocked', 'cancelled')
)
select 1 from waits where id = ?2 limit 1
