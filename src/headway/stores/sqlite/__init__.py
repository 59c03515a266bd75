"""The SQLite store: the embedded default, one file, any number of processes."""

from headway.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
