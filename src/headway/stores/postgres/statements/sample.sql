-- Jobs of all states, from pages picked at random, always the same ones; a table of up to $2 pages
-- is read whole. The first column is the share of the jobs in these pages: 1, or an estimate by the
-- number of jobs in a page at the last vacuum or analyze.
with size as materialized (
    select relpages, reltuples, pg_relation_size(oid) / current_setting('block_size')::int as pages
    from pg_class where oid = '/*headway*/job'::regclass
), part as materialized (
    select
        least(100, 100 * $2::float8 / greatest(pages, 1))::float4 as percent,
        case when relpages > 0 then reltuples / relpages * pages end::float8 as total
    from size
)
select
    case
        when part.percent >= 100 then 1
        when part.total > 0 then least(sum(count(j.id)) over () / part.total, 0.999)
        else part.percent / 100
    end::float8,
    j.queue, j.type, j.state,
    j.state <> 'pending' or j.run_at <= coalesce($1::timestamptz, statement_timestamp()) as due,
    count(j.id), min(j.run_at)
from part
left join lateral (
    select * from /*headway*/job tablesample system (part.percent) repeatable (0)
) j on true
group by part.percent, part.total, 2, 3, 4, 5
