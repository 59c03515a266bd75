-- Newest first. Null does not restrict.
select /*record*/
from /*headway*/job j
where ($1::uuid is null or j.id < $1::uuid)
    and ($2::text[] is null or j.state = any($2::text[]))
    and ($3::text[] is null or j.type = any($3::text[]))
    and ($4::text[] is null or j.queue = any($4::text[]))
    and ($5::uuid is null or j.id = $5::uuid or (j.sequence_id = $5::uuid and j.step > 0))
    and ($6::uuid is null or j.id = $6::uuid or j.root_id = $6::uuid)
order by j.id desc
limit $7::int
