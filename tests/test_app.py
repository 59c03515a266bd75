"""Putting an app together: URLs, drivers, opening and closing, and the names it exports."""

from __future__ import annotations

import asyncio
import builtins
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import headway
from headway import Headway, Retention, WorkerSettings
from headway.errors import (
    ConfigurationError,
    InvalidName,
    SchemaMissing,
    StoreClosed,
    StoreUnreachable,
)
from headway.notifiers.none import NoNotifier
from headway.stores.memory import MemoryStore

SECRET = "hunter2"


def test_public_names_are_sorted_and_exist():
    assert headway.__all__ == sorted(headway.__all__)
    assert len(set(headway.__all__)) == len(headway.__all__)
    for name in headway.__all__:
        assert getattr(headway, name)


def test_importing_headway_imports_no_driver():
    code = (
        "import sys, headway; app = headway.Headway('memory://');"
        "print([name for name in sys.modules if name.partition('.')[0] in "
        "('sqlite3', '_sqlite3', 'psycopg', 'psycopg_pool', 'asyncpg', 'pydantic', 'click')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("memory://", "memory"),
        ("sqlite:///shop.db", "SQLite file shop.db"),
        ("sqlite:////var/my%20shop.db", "SQLite file /var/my shop.db"),
        (
            f"postgresql://me:{SECRET}@db.example:5433/shop",
            "PostgreSQL database 'shop' at db.example:5433",
        ),
        (
            f"postgres://me:{SECRET}@db.example/shop",
            "PostgreSQL database 'shop' at db.example:5432",
        ),
        (
            f"mongodb://me:{SECRET}@one,two:27018/shop?replicaSet=rs0",
            "MongoDB database 'shop' at one,two:27018",
        ),
        (f"mongodb+srv://me:{SECRET}@db.example", "MongoDB database 'headway' at db.example"),
    ],
)
def test_a_url_names_the_store(url: str, name: str):
    app = Headway(url)
    assert app.store.name == name
    assert repr(app) == f"<Headway on {name}>"
    assert SECRET not in repr(app.store)


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        (
            f"mysql://me:{SECRET}@host/db",
            "unknown scheme 'mysql'; there are memory://, sqlite:///shop.db (relative), sqlite:///",
        ),
        (f"host=db password={SECRET}", "a store is named by a URL: memory://, sqlite:///shop.db"),
        ("sqlite://shop.db", "a SQLite URL has three slashes and a path"),
        ("sqlite:///", "a SQLite URL has three slashes and a path"),
        ("sqlite:///:memory:", "SQLite in memory is not supported; use memory://"),
        (f"postgresql://me:{SECRET}@host:abc/db", "the port in the store's URL is not a number"),
        (f"postgresql://me:{SECRET}/x@host/db", "the port in the store's URL is not a number"),
    ],
)
def test_a_bad_url_gets_one_sentence_without_its_secret(url: str, sentence: str):
    with pytest.raises(ConfigurationError) as raised:
        Headway(url)
    assert str(raised.value).startswith(sentence)
    assert SECRET not in str(raised.value)


def test_schema_and_prefix_are_allow_listed():
    with pytest.raises(InvalidName, match="schema name 'a;b' is not allowed"):
        Headway("postgresql://host/db", schema="a;b")
    with pytest.raises(InvalidName, match="table prefix 'a b' is not allowed"):
        Headway("sqlite:///shop.db", prefix="a b")


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    for name in list(sys.modules):
        if name.startswith(("psycopg", "headway.stores.postgres", "headway.providers")):
            monkeypatch.delitem(sys.modules, name)
    original = builtins.__import__

    def without_psycopg(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] in ("psycopg", "psycopg_pool"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_psycopg)
    with pytest.raises(ConfigurationError) as raised:
        Headway("postgresql://host/db")
    assert str(raised.value) == (
        "the postgres store needs a driver that is not installed (psycopg): "
        "pip install 'headway[postgres]'"
    )


async def test_an_unreachable_server_is_named_without_its_secret():
    app = Headway(f"postgresql://me:{SECRET}@127.0.0.1:1/shop")
    with pytest.raises(StoreUnreachable) as raised:
        await app.open()
    assert str(raised.value).startswith("cannot reach PostgreSQL database 'shop' at 127.0.0.1:1: ")
    assert SECRET not in str(raised.value)
    await app.close()


async def test_opening_is_counted_and_closing_is_forgiving():
    app = Headway("memory://")
    await app.close()
    async with app:
        async with app:
            assert (await app.list()).jobs == []
        assert (await app.list()).jobs == []
    with pytest.raises(StoreClosed):
        await app.list()
    await app.close()
    async with app:
        assert (await app.list()).jobs == []


async def test_many_may_open_at_once(sqlite_path: Path):
    app = Headway(f"sqlite:///{sqlite_path}")
    await asyncio.gather(*(app.open() for _ in range(5)))
    assert (await app.list()).jobs == []
    await asyncio.gather(*(app.close() for _ in range(5)))
    with pytest.raises(StoreClosed):
        await app.list()


async def test_a_sqlite_file_is_migrated_unless_told_otherwise(sqlite_path: Path):
    with pytest.raises(SchemaMissing, match="create it with `headway migrate up`"):
        await Headway(f"sqlite:///{sqlite_path}", migrate=False).open()
    async with Headway(f"sqlite:///{sqlite_path}"):
        pass
    async with Headway(f"sqlite:///{sqlite_path}", migrate=False):
        pass


def test_one_app_on_several_loops_one_after_another(sqlite_path: Path):
    app = Headway(f"sqlite:///{sqlite_path}")

    async def look() -> int:
        async with app:
            return len((await app.list()).jobs)

    assert [asyncio.run(look()) for _ in range(3)] == [0, 0, 0]


async def test_what_cannot_be_opened_is_not_left_half_open():
    class Broken(NoNotifier):
        async def open(self) -> None:
            raise ConnectionError("gone")

    app = Headway("memory://", notifier=Broken())
    with pytest.raises(ConnectionError):
        await app.open()
    with pytest.raises(StoreClosed):
        await app.list()


def test_a_store_of_ones_own():
    store = MemoryStore()
    assert Headway(store).store is store


def test_a_worker_works_on_the_queues_of_its_types():
    app = Headway("memory://")

    @app.job
    async def charge() -> None: ...

    @app.job(queue="shipping", retention=60)
    async def ship() -> None: ...

    settings = app.worker(concurrency=3).settings
    assert settings.queues == ("default", "shipping")
    assert settings.concurrency == 3
    kept = settings.retention_by_type["ship"]
    assert kept.completed is not None
    assert kept.completed.total_seconds() == 60
    assert kept.failed is Retention().failed
    assert app.worker(WorkerSettings(queues=["a"]), queues=["b"]).settings.queues == ["b"]
    with pytest.raises(ConfigurationError, match="at least one job type with a handler"):
        Headway("memory://").worker()


async def test_an_app_from_start_to_result():
    app = Headway("memory://")

    @app.job
    async def charge(order_id: int, cents: int) -> str:
        return f"{order_id}: {cents}"

    @app.job(queue="shipping")
    async def ship(job: headway.Job[str], order_id: int) -> str:
        (receipt,) = job.blockers
        again = await app.start(charge.request(order_id, 0))
        assert (await again.get()).origin_id == job.id
        return f"{order_id} with {receipt}"

    async with app:
        worker = app.worker()
        await worker.start()
        sequence = await app.start(ship.request(7).using(blockers=(charge.request(7, 1999),)))
        assert await sequence.result(timeout=60) == "7 with 7: 1999"
        await worker.stop()


async def test_sequences_continue_with_blockers_of_all_kinds():
    app = Headway("memory://")

    @app.job
    async def charge(cents: int) -> int:
        return cents

    @app.job(entry=False)
    async def total(job: headway.Job[*tuple[int, ...]]) -> int:
        return sum(job.blockers)

    @app.job
    async def place(job: headway.Job) -> headway.Continuation[int]:
        known = await app.start(charge.request(1))
        again = charge.request(2).using(dedup=headway.Dedup("two", scope="any"))
        return job.continue_with(total.request().using(blockers=[known, again, charge.request(3)]))

    async with app:
        existing = await app.start(charge.request(2), dedup=headway.Dedup("two"), queue="slow")
        sequence = await app.start(place.request())
        worker = app.worker(queues=["default", "slow"])
        await worker.start()
        assert await sequence.result(timeout=60) == 6
        assert (await sequence.get()).blockers[1] == existing.id
        await worker.stop()
