select /*schedule*/
from /*headway*/schedule where name > $1::text collate "C" order by name collate "C" limit $2::int
