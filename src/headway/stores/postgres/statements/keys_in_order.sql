select p.key from /*headway*/job p where /*due*/ order by p.run_at, p.id limit $6::int
