-- Delete keys that no job has any more. They have been unused for a day, so no open transaction
-- holds them; a key that is being taken right now is passed over.
delete from /*headway*/dedup
where (type, key) in (
    select d.type, d.key from /*headway*/dedup d
    where d.used_at < statement_timestamp() - interval '1 day'
        and not exists (
            select from /*headway*/job j where j.type = d.type and j.dedup_key = d.key
        )
    for update skip locked
)
