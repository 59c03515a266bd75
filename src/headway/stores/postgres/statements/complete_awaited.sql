-- Jobs that have a successor or may have jobs waiting for them.
/*completion*/
returning j.id, j.sequence_id, j.awaited, j.schedule
