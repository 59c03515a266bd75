"""Opening an SQLite file: one that cannot be opened, and one whose write lock somebody holds, as
the caller may, in the transaction in which it is about to start its first job."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headway import Headway
from headway.errors import ConfigurationError, SchemaMissing, StoreError, StoreRefused
from headway.stores.sqlite import SqliteStore, threads


async def test_a_locked_file_is_opened_without_waiting(sqlite_path: Path) -> None:
    """Whoever opens it may hold the lock. What needs the file waits for it."""
    with closing(sqlite3.connect(sqlite_path, isolation_level=None)) as other:
        other.execute("begin immediate")
        async with Headway(f"sqlite:///{sqlite_path}") as app:
            listing = asyncio.create_task(app.list())
            assert not (await asyncio.wait([listing], timeout=0.1))[0]
            other.commit()
            assert (await listing).jobs == []


async def test_a_locked_file_is_checked_when_it_is_free(sqlite_path: Path) -> None:
    store = SqliteStore(sqlite_path)
    with closing(sqlite3.connect(sqlite_path, isolation_level=None)) as other:
        other.execute("begin immediate")
        await store.open()
        with pytest.raises(SchemaMissing):
            await store.run_in(other, store.counts)
        other.commit()
    with pytest.raises(SchemaMissing):
        await store.run(store.counts)
    with pytest.raises(SchemaMissing):
        async with store.begin():
            pass
    await store.close()


async def test_a_store_is_closed_while_its_file_is_locked(
    sqlite_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "LAST_WAIT", 0.1)
    store = SqliteStore(sqlite_path)
    with closing(sqlite3.connect(sqlite_path, isolation_level=None)) as other:
        other.execute("begin immediate")
        await store.open(migrate=True)
        counting = asyncio.create_task(store.run(store.counts))
        await asyncio.sleep(0)  # it has begun to wait for the file
        async with asyncio.timeout(10):
            await store.close()
        with pytest.raises(StoreError, match="held by another writer"):
            await counting


async def test_the_tables_are_not_made_in_another_file(sqlite_path: Path, tmp_path: Path) -> None:
    store = SqliteStore(sqlite_path)
    with (
        closing(sqlite3.connect(sqlite_path, isolation_level=None)) as other,
        closing(sqlite3.connect(tmp_path / "orders.db")) as tx,
    ):
        other.execute("begin immediate")
        await store.open(migrate=True)
        with pytest.raises(ConfigurationError, match=r"a connection to .*orders\.db, and the jobs"):
            await store.run_in(tx, store.counts)
        assert tx.execute("select count(*) from sqlite_master").fetchone() == (0,)
        other.rollback()
    await store.close()


async def test_a_transaction_that_began_before_the_tables_were_made(sqlite_path: Path) -> None:
    """It has read in a file with a write-ahead log, so the store makes its tables beside it."""
    store = SqliteStore(sqlite_path)
    with closing(sqlite3.connect(sqlite_path, isolation_level=None)) as tx:
        tx.execute("pragma journal_mode = wal")
        tx.execute("begin")
        tx.execute("select * from sqlite_master").fetchall()
        await store.open(migrate=True)
        with pytest.raises(StoreError, match="its transaction began before they were made"):
            await store.run_in(tx, store.counts)
        tx.execute("rollback")
        tx.execute("begin")
        assert await store.run_in(tx, store.counts) == []
    await store.close()


@pytest.fixture
def everyones_path() -> Iterator[Path]:
    """A directory that a process without rights can reach."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_a_path_without_a_directory(tmp_path: Path) -> None:
    said = _said(tmp_path / "missing" / "shop.db")
    assert said.endswith(
        f"there is no directory {tmp_path / 'missing'}; create it, or name another path"
    )


def test_a_directory(tmp_path: Path) -> None:
    assert _said(tmp_path).endswith(f"{tmp_path}: it is a directory; name a file in it")


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Sir or Madam, " * 1_000)
    assert _said(path).endswith("it is not an SQLite database; name another file")
    assert path.read_text().startswith("Dear Sir")


def test_a_file_that_must_not_be_read(everyones_path: Path) -> None:
    path = everyones_path / "shop.db"
    path.touch(mode=0)
    assert _said_without_rights(path).endswith(
        "this process may not read and write it; change the permissions of the file"
    )


def test_a_directory_that_must_not_be_written(everyones_path: Path) -> None:
    everyones_path.chmod(0o555)
    assert _said_without_rights(everyones_path / "shop.db").endswith(
        f"this process may not create files in {everyones_path}; "
        "change the permissions of the directory"
    )


def _said(path: Path) -> str:
    app = Headway(f"sqlite:///{path}")
    with pytest.raises(StoreRefused) as caught:
        app.sync.start_many([])
    assert str(caught.value).startswith(f"cannot use SQLite file {path}: ")
    return str(caught.value)


def _said_without_rights(path: Path) -> str:
    """The same in a process that may not do everything."""
    receiver, sender = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of other tests are no matter
        child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            try:
                asyncio.run(SqliteStore(path).migrate())
            except StoreRefused as error:
                os.write(sender, str(error).encode())
        finally:
            os._exit(0)
    os.close(sender)
    with os.fdopen(receiver) as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0o002)
    yield
    os.umask(before)


def _modes(path: Path) -> dict[str, int]:
    return {
        each.name.removeprefix(path.name): stat.S_IMODE(each.stat().st_mode)
        for each in path.parent.iterdir()
        if each.name.startswith(path.name)
    }


@pytest.mark.usefixtures("open_umask")
async def test_a_new_file_is_its_owners_alone(sqlite_path: Path) -> None:
    app = Headway(f"sqlite:///{sqlite_path}")

    @app.job
    async def work() -> None: ...

    async with app:
        worker = app.worker()
        await worker.start()
        await app.start(work.request())
        modes = _modes(sqlite_path)
        await worker.stop()
    assert modes == {"": 0o600, "-wal": 0o600, "-shm": 0o600, "-notifications": 0o700}


@pytest.mark.usefixtures("open_umask")
async def test_a_new_file_behind_a_link_is_its_owners_alone(tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "shop.db")
    await SqliteStore(link).migrate()
    assert _modes(tmp_path / "shop.db")[""] == 0o600


@pytest.mark.usefixtures("open_umask")
async def test_a_file_that_is_there_keeps_its_permissions(sqlite_path: Path) -> None:
    sqlite_path.touch()
    sqlite_path.chmod(0o660)
    async with Headway(f"sqlite:///{sqlite_path}") as app:
        await app.list()
        assert set(_modes(sqlite_path).values()) == {0o660}


class Slow(SqliteStore):
    """Opens connections when it is told to, and tells when one is closed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.connects = threading.Event()
        self.may_connect = threading.Event()
        self.closed = threading.Event()

    def _connect(
        self, busy_for: float, give_up_at: Callable[[], float] | None = None
    ) -> sqlite3.Connection:
        self.connects.set()
        self.may_connect.wait(60)
        connection = super()._connect(busy_for, give_up_at)
        store = self

        class RecordingListener(sqlite3.Connection):
            def close(self) -> None:
                super().close()
                store.closed.set()

        connection.close()
        return sqlite3.connect(self.path, factory=RecordingListener, check_same_thread=False)


async def test_a_transaction_that_is_cancelled_while_it_connects_leaves_no_connection(
    sqlite_path: Path,
) -> None:
    store = await _slow(sqlite_path)

    async def begin() -> None:
        async with store.begin():
            pass

    beginning = asyncio.create_task(begin())
    assert await asyncio.to_thread(store.connects.wait, 60)
    beginning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    store.may_connect.set()
    assert await asyncio.to_thread(store.closed.wait, 60)
    await store.close()


async def test_no_transaction_connects_while_the_process_is_forked(sqlite_path: Path) -> None:
    store = await _slow(sqlite_path)
    store.may_connect.set()

    async def begin() -> None:
        async with store.begin():
            pass

    store.before_fork()
    beginning = asyncio.create_task(begin())
    assert not await asyncio.to_thread(store.connects.wait, 0.2)
    store.after_fork()
    await beginning
    assert store.connects.is_set()
    await store.close()


async def _slow(path: Path) -> Slow:
    store = Slow(path)
    store.may_connect.set()
    await store.migrate()
    await store.open()
    for event in (store.connects, store.may_connect, store.closed):
        event.clear()
    return store
