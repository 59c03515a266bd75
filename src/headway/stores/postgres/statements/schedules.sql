select /*schedule*/
from /*headway*/schedule where name = any($1::text[])
