-- Mark the sequences of these jobs as awaited; a job that is not in the answer has completed.
update /*headway*/job set awaited = 1
where id in (select value from json_each(?1)) and state <> 'completed'
returning id
