"""Stores and notifier for a Django database on PostgreSQL."""

from __future__ import annotations

from headway.django.connection_store import DjangoConnectionStore
from headway.django.database import postgres_dsn
from headway.drivers.postgres_dsn import describe
from headway.notifiers.connection import ConnectionCallbacks, NotifierConnection
from headway.notifiers.postgres import PostgresNotifier
from headway.ports.store import MigrationStatus
from headway.stores.postgres import PostgresStore


class DjangoPostgresWorkerStore(PostgresStore):
    """On connections of its own; reads Django's settings before it opens them."""

    def __init__(self, using: str, *, schema: str) -> None:
        super().__init__(postgres_dsn(using), schema=schema)
        self.using = using

    async def open(self) -> None:
        self._locate()
        await super().open()

    async def migrate(self) -> list[str]:
        self._locate()
        return await super().migrate()

    async def migration_status(self) -> list[MigrationStatus]:
        self._locate()
        return await super().migration_status()

    def _locate(self) -> None:
        self._dsn = postgres_dsn(self.using)
        self.name = describe(self._dsn)
        self._claim_bounds.clear()  # those of another database do not hold here


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
