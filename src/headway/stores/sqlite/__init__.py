"""The SQLite store: the embedded default, one file, any number of processes."""
