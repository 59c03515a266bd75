-- Jobs that have a successor or may have jobs waiting for them.
/*completion*/
returning id, sequence_id, awaited, schedule
