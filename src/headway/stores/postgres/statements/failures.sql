-- Failed jobs by fingerprint, from the index alone, hopping from one fingerprint to the next. Each
-- is counted up to its share of $1; the last column says whether the count is complete.
with recursive hop (fingerprint) as (
    (
        select fingerprint from /*headway*/job where state = 'failed'
        order by fingerprint limit 1
    )
    union all
    select next.fingerprint
    from hop
    cross join lateral (
        select j.fingerprint from /*headway*/job j
        where j.state = 'failed' and j.fingerprint > hop.fingerprint
        order by j.fingerprint limit 1
    ) next
), alike as materialized (
    select fingerprint from hop limit 2000
), bounds as (
    select greatest($1::int / greatest(count(*), 1), 50)::int as most from alike
)
select
    alike.fingerprint, one.count, one.first, one.last, one.id, one.count < bounds.most
from alike
cross join bounds
cross join lateral (
    select
        count(*) as count, min(newest.finished_at) as first, max(newest.finished_at) as last,
        max(newest.id::text) as id
    from (
        select id, finished_at from /*headway*/job
        where state = 'failed' and fingerprint = alike.fingerprint
        order by fingerprint desc, id desc limit bounds.most
    ) newest
) one
order by one.count desc, one.last desc
limit $2::int
