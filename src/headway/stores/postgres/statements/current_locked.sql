select /*record*/
from /*headway*/job j
where j.id = any(array(
    select coalesce((
        select later.id from /*headway*/job later
        where later.sequence_id = s.id and later.position > 0
        order by later.position desc limit 1
    ), s.id)
    from unnest($1::uuid[]) as s (id)
))
order by j.id
for update
