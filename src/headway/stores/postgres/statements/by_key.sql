-- The newest sequence under this key that counts, by the state of its last job.
select j.id, j.run_at, j.state = 'blocked'
from /*headway*/job j
where j.type = $1::text
    and j.dedup_key = $2::text
    and j.position = 0
    and ($3::bool or (
        select coalesce((
            select later.state from /*headway*/job later
            where later.sequence_id = j.id and later.position > 0
            order by later.position desc limit 1
        ), j.state)
    ) in ('blocked', 'pending', 'running'))
    and ($4::float8 is null or j.created_at
        > coalesce($6::timestamptz, statement_timestamp()) - make_interval(secs => $4::float8))
    and ($5::uuid is null or j.id <> $5::uuid)
order by j.created_at desc, j.id desc
limit 1
