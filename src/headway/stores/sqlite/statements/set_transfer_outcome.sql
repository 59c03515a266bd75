insert into /*headway*/batch_outcome (batch, outcome, at) values (?1, ?2, ?3)
on conflict do nothing
