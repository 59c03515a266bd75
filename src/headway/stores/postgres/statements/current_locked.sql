/*current*/
order by j.id
for update
