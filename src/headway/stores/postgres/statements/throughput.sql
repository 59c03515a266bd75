-- For each slice of time the first $4 jobs that ended in it; if there were more, also the time up
-- to which they are counted.
with slice as (
    select
        number,
        coalesce($1::timestamptz, statement_timestamp())
            - make_interval(secs => $3::float8) * ($2::int - number) as since
    from generate_series(0, $2::int - 1) as number
)
select
    slice.number, one.queue, one.state, count(*),
    case when cut.count < $4::int then $3::float8
        else greatest(extract(epoch from cut.last - slice.since), 0.000001)::float8
    end
from slice
cross join lateral (
    select count(*) as count, max(finished_at) as last
    from (
        select finished_at from /*headway*/job
        where finished_at >= slice.since
            and finished_at < slice.since + make_interval(secs => $3::float8)
        order by finished_at limit $4::int
    ) first
) cut
cross join lateral (
    select queue, state from /*headway*/job
    where finished_at >= slice.since and finished_at <= cut.last limit 2 * $4::int
) one
group by slice.number, slice.since, one.queue, one.state, cut.count, cut.last
