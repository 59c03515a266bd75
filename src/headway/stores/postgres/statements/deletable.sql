-- Lock the last jobs of the sequences that these jobs belong to, where those have ended.
select j.id, j.sequence_id
from /*headway*/job j
where j.id = any(array(
        select coalesce((
            select later.id from /*headway*/job later
            where later.sequence_id = asked.sequence_id and later.position > 0
            order by later.position desc limit 1
        ), asked.sequence_id)
        from /*headway*/job asked where asked.id = any($1::uuid[])
    ))
    and j.state in ('completed', 'failed', 'cancelled')
order by j.id
for update
