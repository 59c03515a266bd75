-- SQLite's one writer needs no lock.
/*trees*/
