-- Jobs that come from another store, unchanged.
insert into /*headway*/job (/*moved*/)
select * from unnest(/*moved arrays from $1*/)
on conflict (id) do nothing
returning id
