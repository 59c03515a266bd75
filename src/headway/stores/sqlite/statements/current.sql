-- The last job of each sequence.
select /*record*/
from /*headway*/job j
where j.id in (
    select coalesce((
        select later.id from /*headway*/job later
        where later.sequence_id = s.value and later.position > 0
        order by later.position desc limit 1
    ), s.value)
    from json_each(?1) s
)
