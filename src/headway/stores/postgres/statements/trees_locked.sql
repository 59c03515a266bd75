/*trees*/
for update
