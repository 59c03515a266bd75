-- SQLite's one writer needs no lock.
/*current*/
