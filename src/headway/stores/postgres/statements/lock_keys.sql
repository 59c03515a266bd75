-- Hold one row for each key until the transaction ends: a second transaction waits here, and then
-- finds the job of the first one.
insert into /*headway*/dedup (type, key, used_at)
select k.type, k.key, coalesce($3::timestamptz, statement_timestamp())
from unnest($1::text[], $2::text[]) as k (type, key)
order by k.type, k.key
on conflict (type, key) do update set used_at = excluded.used_at
