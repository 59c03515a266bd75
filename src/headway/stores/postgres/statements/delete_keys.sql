-- Keys that no job holds any more. A day's rest keeps them clear of transactions under way; one that
-- takes a key right now is not waited for.
delete from /*headway*/dedup
where (type, key) in (
    select d.type, d.key from /*headway*/dedup d
    where d.used_at < statement_timestamp() - interval '1 day'
        and not exists (
            select from /*headway*/job j where j.type = d.type and j.dedup_key = d.key
        )
    for update skip locked
)
