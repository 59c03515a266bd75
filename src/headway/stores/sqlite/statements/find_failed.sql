-- As find_newest, among the failed jobs with these fingerprints.
with candidate (id) as materialized (
    select id from /*headway*/job
    where state = 'failed' and fingerprint in (select value from json_each(?10)) and id < ?1
    order by id desc limit ?21
), /*page*/
