"""The PostgreSQL store."""

from headway.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
