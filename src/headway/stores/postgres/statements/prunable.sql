-- Lock the last jobs of finished sequences, oldest first, from a remembered bound on: dead index
-- entries below it pile up while vacuum is held back.
select j.id, j.sequence_id, j.finished_at
from /*headway*/job j
where j.finished_at >= $9::timestamptz
    and j.finished_at < coalesce($2::timestamptz, statement_timestamp())
        - make_interval(secs => $3::float8)
    and j.state = $1::text
    and ($4::text[] is null or coalesce(j.sequence_type, j.type) = any($4::text[]))
    and coalesce(j.sequence_type, j.type) <> all($5::text[])
    and ($6::text[] is null or j.queue = any($6::text[]))
    and j.queue <> all($7::text[])
    and not exists (
        select from /*headway*/job later
        where later.sequence_id = j.sequence_id and later.position > j.position and later.position > 0
    )
    and not exists (
        select from /*headway*/job_blocker b
        join /*headway*/job waiting on waiting.id = b.job_id
        where b.blocker_id = j.sequence_id
            and waiting.state in ('blocked', 'pending', 'running', 'failed', 'cancelled')
    )
order by j.finished_at
limit $8::int
for update of j skip locked
