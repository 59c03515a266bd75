-- Say that somebody waits for these jobs' sequences. Waits for a completion or a deletion under way,
-- and looks at the row again after it: whoever is not answered has completed, or is gone. A
-- completed job is written too, as it is: whoever deletes it must notice, also under REPEATABLE READ.
with held as (
    select id from /*headway*/job where id = any($1::uuid[]) order by id for no key update
), marked as (
    update /*headway*/job j set awaited = j.awaited or j.state <> 'completed'
    from held
    where j.id = held.id
    returning j.id, j.state
)
select id from marked where state <> 'completed'
