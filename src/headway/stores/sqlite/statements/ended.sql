select queue, type, state, run_at, started_at, finished_at
from /*headway*/job where finished_at is not null
order by finished_at desc limit ?1
