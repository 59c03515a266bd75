select queue, type, state, count(*), min(run_at)
from /*headway*/job group by queue, type, state order by queue, type, state
