select /*schedule*/
from /*headway*/schedule where name in (select value from json_each(?1))
