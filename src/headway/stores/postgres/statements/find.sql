-- Newest first. Null does not restrict.
select /*record*/
from /*headway*/job j
where ($1::uuid is null or j.id < $1::uuid)
    and ($2::text[] is null or j.state = any($2::text[]))
    and ($3::text[] is null or j.type = any($3::text[]))
    and ($4::text[] is null or j.queue = any($4::text[]))
    and ($5::uuid is null or j.id = any(array(
        select $5::uuid
        union all
        select id from /*headway*/job where sequence_id = $5::uuid and step > 0
    )))
    and ($6::uuid is null or j.id = any(array(
        select $6::uuid
        union all
        select id from /*headway*/job where root_id = $6::uuid and root_id <> id
    )))
order by j.id desc
limit $7::int
