-- For each slice of time the first ?4 jobs that ended in it; if there were more, also the time up
-- to which they are counted.
with recursive slice (number, since, length) as (
    select 0, ?1 - cast(round(?3 * 1000000) as integer) * ?2, cast(round(?3 * 1000000) as integer)
    union all
    select number + 1, since + length, length from slice where number + 1 < ?2
), first as materialized (
    select number, since, length, (
        select json_group_array(json_array(queue, state, count, last))
        from (
            select queue, state, count(*) as count, max(finished_at) as last
            from (
                select e.queue, e.state, e.finished_at from /*headway*/job e
                where e.finished_at is not null and e.finished_at >= slice.since
                    and e.finished_at < slice.since + slice.length
                order by e.finished_at limit ?4
            )
            group by 1, 2
        )
    ) as groups
    from slice
)
select
    number, one.value ->> 0, one.value ->> 1, one.value ->> 2,
    case when sum(one.value ->> 2) over (partition by number) < ?4 then length
        else max(max(one.value ->> 3) over (partition by number) - since, 1)
    end / 1000000.0
from first, json_each(first.groups) one
