-- All jobs of a small set that match: at most $21 jobs by each index that is asked. These indexes
-- are not in the order of the ids, so the whole set is read. If it is larger, the first column is
-- false and the caller has to use another index.
with candidate as materialized (
    (select unnest($23::uuid[]) as id)
    union
    (select $24::uuid where $24::uuid is not null)
    union
    (select id from /*headway*/job where sequence_id = $24::uuid and position > 0)
    union
    (
        select id from /*headway*/job where dedup_key = any($25::text[])
        limit $21::int + 1
    )
    union
    (
        select id from /*headway*/job where state = 'pending' and 'pending' = any($26::text[])
        order by queue, priority, run_at, id limit $21::int + 1
    )
    union
    (
        select id from /*headway*/job where state = 'running' and 'running' = any($26::text[])
        order by lease_until limit $21::int + 1
    )
    union
    (
        select one.id
        from unnest($26::text[]) as s (state)
        cross join lateral (
            select id from /*headway*/job
            where state = s.state and state in ('blocked', 'failed', 'cancelled')
            order by id desc limit $21::int + 1
        ) one
    )
    union
    (
        select id from /*headway*/job
        where $27::bool and finished_at is not null
            and finished_at > coalesce($4::timestamptz, statement_timestamp())
                - make_interval(secs => coalesce($13::float8, 1e10))
            and finished_at <= coalesce($4::timestamptz, statement_timestamp())
                - make_interval(secs => coalesce($14::float8, -1e10))
        order by finished_at limit $21::int + 1
    )
)
select looked.few, found.*
from (select count(*) <= $21::int as few from candidate) looked
left join lateral (
    select /*record*/
    from (select id from candidate where id < $1::uuid order by id desc) c
    cross join lateral (select * from /*headway*/job where id = c.id limit 1) j
    where looked.few and /*match*/
    order by c.id desc
    limit $22::int
) found on true
