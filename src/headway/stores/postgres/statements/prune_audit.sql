-- Along the primary key, whose ids sort by time: a bounded look however long the audit is.
delete from /*headway*/audit
where id = any(array(select id from /*headway*/audit order by id limit 1000))
    and at < coalesce($2::timestamptz, statement_timestamp()) - make_interval(secs => $1::float8)
returning id
