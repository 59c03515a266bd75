insert into /*headway*/departure (batch, departure, at) values (?1, ?2, ?3)
on conflict do nothing
