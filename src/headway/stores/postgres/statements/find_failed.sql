-- As find_newest, among the failed jobs with these fingerprints.
with last as (
    select one.id
    from unnest($10::text[]) as f (fingerprint)
    cross join lateral (
        select id from /*headway*/job
        where state = 'failed' and fingerprint = f.fingerprint and id < $1::uuid
        order by id desc limit $21::int
    ) one
    order by one.id desc offset $21::int - 1 limit 1
), candidate as (
    select one.*
    from unnest($10::text[]) as f (fingerprint)
    cross join lateral (
        select * from /*headway*/job
        where state = 'failed' and fingerprint = f.fingerprint and id < $1::uuid
        order by id desc limit $21::int
    ) one
    order by one.id desc limit $21::int
), /*page*/
