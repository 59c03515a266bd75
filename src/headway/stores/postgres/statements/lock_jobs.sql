-- Lock jobs, by id, before several statements change them: renewals of leases lock by id, so
-- another order could deadlock.
select 1 from /*headway*/job where id = any($1::uuid[]) order by id for no key update
