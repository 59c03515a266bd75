insert into /*headway*/batch_outcome (batch, outcome, at)
values ($1::uuid, $2::text, coalesce($3::timestamptz, statement_timestamp()))
on conflict (batch) do nothing
