-- Say that somebody waits for these jobs' sequences. Waits for a completion under way, and looks at
-- the state again after it: whoever is not answered has completed.
with held as (
    select id from /*headway*/job where id = any($1::uuid[]) order by id for no key update
)
update /*headway*/job j set awaited = true
from held
where j.id = held.id and j.state <> 'completed'
returning j.id
