"""Stores and notifier for a Django database on PostgreSQL."""

from __future__ import annotations

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from headway.django.connection_store import DjangoConnectionStore
from headway.django.database import postgres_dsn
from headway.drivers.postgres_dsn import describe
from headway.notifiers.connection import ConnectionCallbacks, NotifierConnection
from headway.notifiers.postgres import PostgresNotifier
from headway.stores.postgres import PostgresStore


class DjangoPostgresWorkerStore(PostgresStore):
    """On connections of its own; reads Django's settings before it opens them."""

    def __init__(self, using: str, *, schema: str) -> None:
        super().__init__(postgres_dsn(using), schema=schema)
        self.using = using

    async def _connect(self) -> AsyncConnection[TupleRow]:
        """To the database of the present settings; `open` then makes its pools for the same."""
        self._dsn = postgres_dsn(self.using)
        self.name = describe(self._dsn)
        self._claim_bounds.clear()  # those of another database do not hold here
        return await super()._connect()


class DjangoPostgresClientStore(DjangoConnectionStore, PostgresStore):
    """On Django's connections."""

    def __init__(self, using: str, *, schema: str) -> None:
        PostgresStore.__init__(self, postgres_dsn(using), schema=schema)
        self.using = using


class DjangoPostgresNotifier(PostgresNotifier):
    def __init__(self, using: str, *, schema: str) -> None:
        super().__init__(postgres_dsn(using), schema=schema)
        self._using = using

    async def connect(self, callbacks: ConnectionCallbacks) -> NotifierConnection:
        self._dsn = postgres_dsn(self._using)
        return await super().connect(callbacks)
