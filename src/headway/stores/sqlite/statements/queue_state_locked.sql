-- There is one writer at a time: the transaction has the lock already.
select /*queue*/ from /*headway*/queue where name = ?1
