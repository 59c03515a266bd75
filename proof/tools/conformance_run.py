"""Runs the conformance suite without pytest, on one kind of store, until a case fails."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import psycopg
import pymongo

from headway.ports.store import Store
from headway.stores.memory import MemoryStore
from headway.stores.mongodb import MongoStore
from headway.stores.postgres import PostgresStore
from headway.stores.sqlite import SqliteStore
from headway.testing.conformance.store import StoreCase, cases_for


def first_failure(kind: str, dsn: str = "", *, group: str = "") -> tuple[int, str | None]:
    """Number of cases tried, those of `group` first, and the first failure with its reason."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_run(kind, dsn, Path(folder), group))


async def _run(kind: str, dsn: str, folder: Path, group: str) -> tuple[int, str | None]:
    tried = 0
    shelf = _Shelf(kind, dsn, folder)
    await shelf.prepare()
    cases = cases_for((await shelf.fresh()).capabilities)
    for case in sorted(cases, key=lambda case: not case.name.startswith(f"{group}/")):
        tried += 1
        failure = await _try(case, await shelf.fresh())
        if failure is not None:
            return tried, f"{case.name}: {failure}"
    return tried, None


async def _try(case: StoreCase, store: Store) -> str | None:
    try:
        await store.open()
        async with asyncio.timeout(30):
            await case.function(store)
    except Exception as error:
        return f"{type(error).__name__} {error}"[:300]
    finally:
        await store.close()
    return None


class _Shelf:
    """Hands out empty stores; migrating once and copying or emptying is faster than migrating."""

    def __init__(self, kind: str, dsn: str, folder: Path) -> None:
        self._kind = kind
        self._dsn = dsn
        self._folder = folder
        self._count = 0

    async def prepare(self) -> None:
        match self._kind:
            case "sqlite":
                await SqliteStore(self._folder / "migrated.db").migrate()
            case "postgres":
                await PostgresStore(self._dsn).migrate()
            case "mongodb":
                await MongoStore(self._dsn).migrate()
            case _:
                pass

    async def fresh(self) -> Store:
        match self._kind:
            case "memory":
                return MemoryStore()
            case "sqlite":
                self._count += 1
                path = self._folder / f"{self._count}.db"
                shutil.copy(self._folder / "migrated.db", path)
                return SqliteStore(path)
            case "postgres":
                self._empty()
                return PostgresStore(self._dsn)
            case "mongodb":
                self._empty_mongodb()
                return MongoStore(self._dsn)
            case _:
                raise ValueError(self._kind)

    def _empty(self) -> None:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            found = connection.execute(
                "select tablename from pg_tables where schemaname = 'headway'"
            ).fetchall()
            for (table,) in found:
                if table != "migration":
                    connection.execute(f'delete from headway."{table}"'.encode())

    def _empty_mongodb(self) -> None:
        with pymongo.MongoClient[dict[str, Any]](self._dsn) as client:
            database = client.get_default_database()
            for name in database.list_collection_names():
                if name != "headway.migration":
                    database[name].delete_many({})
