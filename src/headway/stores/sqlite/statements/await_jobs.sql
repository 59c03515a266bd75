-- Say that somebody waits for these jobs' sequences; whoever is not answered has completed.
update /*headway*/job set awaited = 1
where id in (select value from json_each(?1)) and state <> 'completed'
returning id
