-- Failed jobs by fingerprint, from the index alone, hopping from one fingerprint to the next. Each
-- is counted up to its share of ?1; the last column says whether the count is complete.
with recursive hop (fingerprint) as (
    select min(fingerprint) from /*headway*/job where state = 'failed'
    union all
    select (
        select min(j.fingerprint) from /*headway*/job j
        where j.state = 'failed' and j.fingerprint > hop.fingerprint
    )
    from hop where hop.fingerprint is not null
), alike (fingerprint) as materialized (
    select fingerprint from hop where fingerprint is not null limit 2000
), bounds (most) as materialized (
    select max(?1 / max(count(*), 1), 50) from alike
), counted as materialized (
    select fingerprint, (
        select json_array(count(*), min(finished_at), max(finished_at), max(id))
        from (
            select j.id, j.finished_at from /*headway*/job j
            where j.state = 'failed' and j.fingerprint = alike.fingerprint
            order by j.id desc limit (select most from bounds)
        )
    ) as found
    from alike
)
select
    fingerprint, found ->> 0, found ->> 1, found ->> 2, found ->> 3,
    found ->> 0 < (select most from bounds)
from counted
order by 2 desc, 4 desc
limit ?2
