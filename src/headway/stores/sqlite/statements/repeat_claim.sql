-- The jobs that an earlier try of a claim took, whose answer was lost: their leases begin anew.
update /*headway*/job
set lease_until = ?1 + cast(round(?2 * 1000000) as integer)
where state = 'running'
    and lease_token = ?3
    and lease_until > ?1
returning /*claimed*/
