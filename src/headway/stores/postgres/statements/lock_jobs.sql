-- Before jobs are changed by several statements: renewals lock by id, and so must these.
select 1 from /*headway*/job where id = any($1::uuid[]) order by id for no key update
