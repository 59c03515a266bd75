select /*record*/
from /*headway*/job j
where j.state = 'running'
    and j.lease_until <= ?1
order by j.lease_until, j.id
limit ?2
