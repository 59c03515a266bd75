select /*schedule*/
from /*headway*/schedule where name > ?1 order by name limit ?2
