"""Stores and notifier for a Django database in an SQLite file."""

from __future__ import annotations

from headway.django.connection_store import DjangoConnectionStore
from headway.django.database import sqlite_path
from headway.notifiers.connection import ConnectionCallbacks, NotifierConnection
from headway.notifiers.sqlite import SqliteNotifier
from headway.ports.store import MigrationStatus
from headway.stores.sqlite import SqliteStore


class DjangoSqliteWorkerStore(SqliteStore):
    """On connections of its own; reads Django's settings before it opens them."""

    def __init__(self, using: str, *, prefix: str) -> None:
        super().__init__(f"of Django's database {using!r}", prefix=prefix)
        self.using = using

    async def open(self, *, migrate: bool = False) -> None:
        self._locate()
        await super().open(migrate=migrate)

    async def migrate(self) -> list[str]:
        self._locate()
        return await super().migrate()

    async def migration_status(self) -> list[MigrationStatus]:
        self._locate()
        return await super().migration_status()

    def _locate(self) -> None:
        self.path = sqlite_path(self.using)
        self.name = f"SQLite file {self.path}"


class DjangoSqliteClientStore(DjangoConnectionStore, SqliteStore):
    """On Django's connections."""

    def __init__(self, using: str, *, prefix: str) -> None:
        SqliteStore.__init__(self, f"of Django's database {using!r}", prefix=prefix)
        self.using = using


class DjangoSqliteNotifier(SqliteNotifier):
    def __init__(self, using: str) -> None:
        super().__init__(f"of Django's database {using!r}")
        self._using = using

    async def connect(self, callbacks: ConnectionCallbacks) -> NotifierConnection:
        self.path = sqlite_path(self._using)
        return await super().connect(callbacks)
