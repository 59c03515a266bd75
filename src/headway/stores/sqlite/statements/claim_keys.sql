-- Claim due jobs of one queue and priority, key by key, and jobs without a key.
update /*headway*/job
set state = 'running',
    started_at = ?4,
    lease_until = ?4 + cast(round(?9 * 1000000) as integer),
    lease_token = ?10,
    lease_version = lease_version + 1,
    worker = ?11
where seq in (
    select seq from (
        select seq from (
            select
                j.seq, turn.value ->> 1 as most,
                row_number() over (partition by turn.key order by j.run_at, j.id) as place
            from json_each(?1) turn
            cross join /*headway*/job j
            where j.seq in (
                select p.seq from /*headway*/job p
                where p.state = 'pending'
                    and p.queue = ?2
                    and p.priority = ?3
                    and p.key = turn.value ->> 0
                    and p.run_at <= ?4
                    and p.type in (select value from json_each(?5))
                    and (?6 is null or p.losses <= ?6)
                order by p.run_at, p.id
                limit (select max(value ->> 1) from json_each(?1))
            )
        )
        where place <= most
        union all
        select * from (
            select p.seq from /*headway*/job p
            where p.state = 'pending'
                and p.queue = ?2
                and p.priority = ?3
                and p.key is null
                and p.run_at <= ?4
                and p.type in (select value from json_each(?5))
                and (?6 is null or p.losses <= ?6)
            order by p.run_at, p.id
            limit ?8
        )
    )
    limit ?7
)
returning /*claimed*/
