-- In the order of their names, so that two transactions do not wait for each other.
select /*schedule*/
from /*headway*/schedule where name = any($1::text[]) order by name for update
