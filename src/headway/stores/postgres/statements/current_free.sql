-- Those that no other transaction holds. A handler's transaction holds its job as long as it runs.
/*current*/
order by j.id
for update skip locked
