-- One that another transaction stores at the same time is not written over: a pause and the
-- last run would be lost. The answer are the names of the new ones.
insert into /*headway*/schedule (
    /*schedule*/
)
select * from unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[],
    $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::uuid[], $11::bigint[],
    $12::bigint[], $13::bigint[], $14::timestamptz[], $15::timestamptz[]
)
on conflict (name) do nothing
returning name
