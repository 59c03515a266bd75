-- Jobs of all states: one row number from each of ?2 stretches of equal length, always the same.
-- The first column is the share of row numbers that was read; up to ?2 row numbers are all read. A
-- number whose job was deleted counts as empty.
with recursive stretch (number, first, length, last) as (
    select 0, low, max((high - low + ?2) / ?2, 1), high
    from (
        select
            (select min(seq) from /*headway*/job) as low,
            (select max(seq) from /*headway*/job) as high
    )
    union all
    select number + 1, first + length, length, last from stretch where first + length <= last
)
select
    1.0 / stretch.length, j.queue, j.type, j.state,
    j.state <> 'pending' or j.run_at <= ?1 as due, count(j.id), min(j.run_at)
from stretch
left join /*headway*/job j
    -- By the golden ratio: it falls in step with no rhythm that the jobs may have.
    on j.seq = stretch.first
        + ((stretch.number * 2654435761) & 4294967295) * stretch.length / 4294967296
group by 1, 2, 3, 4, 5
