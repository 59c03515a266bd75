"""Django's database where it is PostgreSQL."""

from __future__ import annotations

from headway.django.connection_store import Joined
from headway.django.database import postgres_dsn
from headway.drivers.postgres_connection import describe
from headway.notifiers.channel import Ears, Link
from headway.notifiers.postgres import PostgresNotifier
from headway.ports.store import MigrationStatus
from headway.stores.postgres import PostgresStore


class WorkerStore(PostgresStore):
    """With connections of its own; where to is looked up when they are made."""

    def __init__(self, using: str, *, schema: str, prefix: str) -> None:
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


class ClientStore(Joined, PostgresStore):
    """On Django's connections."""

    def __init__(self, using: str, *, schema: str, prefix: str) -> None:
        PostgresStore.__init__(self, postgres_dsn(using), schema=schema)
        self.using = using


class WorkerNotifier(PostgresNotifier):
    def __init__(self, using: str, *, schema: str) -> None:
        super().__init__(postgres_dsn(using), schema=schema)
        self._using = using

    async def connect(self, ears: Ears) -> Link:
        self._dsn = postgres_dsn(self._using)
        return await super().connect(ears)
