"""Which provider a connection gets, and providers of one's own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headway import Headway
from headway.errors import ConfigurationError, SchemaMissing
from headway.ports.statement import Row, Statement
from headway.providers.placeholders import by_number, percent_doubled, pyformat
from headway.providers.sqlite3 import Sqlite3
from headway.stores.memory import MemoryStore
from tests.providers.connections import ON_POSTGRES, ON_SQLITE, make_subject, sqlite3_connection


class Unit:
    """A unit of work of the user's own, around a sqlite3 connection."""

    def __init__(self, connection: object) -> None:
        self.connection = connection
        self.after: list[Callable[[], None]] = []


class Units:
    def __init__(self) -> None:
        self._inner = Sqlite3()

    def accepts(self, tx: object) -> bool:
        return isinstance(tx, Unit)

    def execute(self, tx: Unit, statement: Statement) -> Sequence[Row]:
        return self._inner.execute(tx.connection, statement)  # type: ignore[arg-type]

    def after_commit(self, tx: Unit, callback: Callable[[], None]) -> bool:
        tx.after.append(callback)
        return True


def test_a_provider_of_ones_own(sqlite_path: Path) -> None:
    url = f"sqlite:///{sqlite_path}"
    app = Headway(url, providers=[Units()])

    @app.job
    def pack(number: int) -> int:
        return number

    with app.sync as client:
        with sqlite3_connection(url, sqlite_path).transaction() as connection:  # type: ignore[union-attr]
            unit = Unit(connection)
            started = client.start(pack.request(1), tx=unit)
        assert client.get(started).state == "pending"
        assert len(unit.after) == 1


def test_providers_are_for_stores_that_headway_makes() -> None:
    with pytest.raises(ConfigurationError, match="give `providers` to the store"):
        Headway(MemoryStore(), providers=[Units()])


def test_the_url_of_sqlalchemy_is_understood(sqlite_path: Path) -> None:
    assert Headway(f"sqlite+aiosqlite:///{sqlite_path}").store.name.startswith("SQLite file")
    store = Headway("postgresql+asyncpg://shop@db.example/shop").store
    assert store.name == "PostgreSQL database 'shop' at db.example:5432"


def test_no_driver_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys; from headway import Headway; Headway('sqlite:///x.db'); "
        "assert not {'sqlalchemy', 'django', 'aiosqlite', 'psycopg'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("name", [*ON_POSTGRES, *ON_SQLITE])
def test_missing_tables_are_said_to_be_missing(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    subject = make_subject(name, request, tmp_path)
    store = Headway(subject.url).store
    transaction: Any = subject.transaction

    async def awaited() -> None:
        async with transaction() as tx:
            await store.run_in(tx, store.counts)

    def blocking() -> None:
        with transaction() as tx:
            store.run_in_sync(tx, store.counts)

    with pytest.raises(SchemaMissing, match="headway migrate"):
        asyncio.run(awaited()) if subject.awaited else blocking()


def test_placeholders() -> None:
    assert pyformat("select $1::int % $12") == "select %(1)s::int %% %(12)s"
    assert percent_doubled("select ?1 % 2") == "select ?1 %% 2"
    assert by_number(["a", None]) == {"1": "a", "2": None}
