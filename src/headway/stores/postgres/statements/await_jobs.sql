-- Mark the sequences of these jobs as awaited. Waits for a completion or deletion in progress and
-- then looks at the row again: a job that is not in the answer has completed or is deleted. A
-- completed job is written too, unchanged: its deletion must notice, also under REPEATABLE READ.
with held as (
    select id from /*headway*/job where id = any($1::uuid[]) order by id for no key update
), marked as (
    update /*headway*/job j set awaited = j.awaited or j.state <> 'completed'
    from held
    where j.id = held.id
    returning j.id, j.state
)
select id from marked where state <> 'completed'
