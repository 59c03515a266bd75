select ?1
