-- The newest sequence under this key that counts, by the state of its last job.
select j.id, j.run_at, j.state = 'blocked'
from /*headway*/job j
where j.type = ?1
    and j.dedup_key = ?2
    and j.position = 0
    and (?3 or coalesce((
        select later.state from /*headway*/job later
        where later.sequence_id = j.id and later.position > 0
        order by later.position desc limit 1
    ), j.state) in ('blocked', 'pending', 'running'))
    and (?4 is null or j.created_at > ?6 - cast(round(?4 * 1000000) as integer))
    and (?5 is null or j.id <> ?5)
order by j.created_at desc, j.id desc
limit 1
