-- The transaction is a writing one: SQLite has no other locks.
select /*schedule*/
from /*headway*/schedule where name in (select value from json_each(?1))
