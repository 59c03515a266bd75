select /*schedule*/
from /*headway*/schedule where name > $1::text order by name limit $2::int
