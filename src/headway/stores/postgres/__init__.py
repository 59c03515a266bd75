"""The PostgreSQL store: jobs in a schema of their own."""

from headway.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
