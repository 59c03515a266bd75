"""Sockets beside an SQLite file, and looking at the file where there are none."""

from __future__ import annotations

import asyncio
import os
import socket
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headway.notifiers.sqlite import SqliteNotifier
from headway.ports.notifications import JobsScheduled, SequenceEnded
from headway.ports.notifier import NotifierStatus
from headway.testing.conformance.notifier.kit import RecordingListener, interest_in

OTHER_PROCESS = """
import asyncio, sys
from headway.ports.notifications import SequenceEnded
from headway.notifiers.sqlite import SqliteNotifier

async def main():
    notifier = SqliteNotifier(sys.argv[1])
    await notifier.open()
    await notifier.publish([SequenceEnded("elsewhere")])
    await notifier.close()

asyncio.run(main())
"""


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # a socket's path must be short for the tests' own sockets
    return make_database(tmp_path / "shop.db")


def make_database(path: Path) -> Path:
    connection = sqlite3.connect(path)
    connection.execute("pragma journal_mode = wal")
    connection.execute("create table t (x)")
    connection.close()
    return path


@asynccontextmanager
async def opened(*paths: Path | str) -> AsyncIterator[list[SqliteNotifier]]:
    notifiers = [SqliteNotifier(path) for path in paths]
    for notifier in notifiers:
        await notifier.open()
    try:
        yield notifiers
    finally:
        for notifier in notifiers:
            await notifier.close()


async def test_another_process_is_heard_and_nothing_is_left_behind(database: Path) -> None:
    heard = RecordingListener()
    async with opened(database) as (notifier,):
        await notifier.subscribe(heard)
        await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", OTHER_PROCESS, str(database)], check=True
        )
        await heard.until(SequenceEnded("elsewhere"))
    assert [name for name in os.listdir(database.parent) if "notifications" in name] == []


async def test_paths_that_lead_to_one_file_are_one_place(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = database.with_name("link.db")
    link.symlink_to(database)
    monkeypatch.chdir(database.parent)
    async with opened(link, "shop.db") as (one, other):
        heard = RecordingListener()
        await one.subscribe(heard)
        await other.publish([SequenceEnded("one")])
        await heard.until_count(1)


async def test_a_path_that_is_too_long_for_a_socket(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    database = make_database(folder / "shop.db")
    async with opened(database, database) as (one, other):
        heard = RecordingListener()
        await one.subscribe(heard)
        assert os.listdir(f"{database}-notifications")
        await other.publish([SequenceEnded("one")])
        await heard.until_count(1)


async def test_whoever_died_without_a_word_is_tidied_away(database: Path) -> None:
    async with opened(database, database) as (one, other):
        heard = RecordingListener()
        await one.subscribe(heard)
        dead = Path(f"{database}-notifications") / "els.1.dead.socket"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as gone:
            gone.bind(str(dead.relative_to(database.parent)))
        await other.publish([SequenceEnded("one")])
        await heard.until_count(1)
        assert not dead.exists()


async def test_a_socket_that_somebody_removed_is_made_again(database: Path) -> None:
    async with opened(database, database) as (one, other):
        one.watch_every = 0.05
        heard = RecordingListener()
        said: list[NotifierStatus] = []
        await one.subscribe(heard, on_status=said.append)
        (mine,) = Path(f"{database}-notifications").iterdir()
        mine.unlink()
        async with asyncio.timeout(60):
            while not said[1:] or not said[-1].connected:
                await asyncio.sleep(0.01)
        await other.publish([SequenceEnded("one")])
        await heard.until_count(1)


async def test_who_may_use_the_database_may_use_the_sockets(database: Path) -> None:
    database.chmod(0o660)
    async with opened(database) as (notifier,):
        await notifier.subscribe(RecordingListener())
        folder = Path(f"{database}-notifications")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o770


async def test_one_that_does_not_read_delays_nobody_for_long(database: Path) -> None:
    async with opened(database, database) as (one, other):
        heard = RecordingListener()
        await one.subscribe(heard)
        full = Path(f"{database}-notifications") / "els.1.full.socket"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf:
            deaf.bind(str(full.relative_to(database.parent)))
            for number in range(600):
                await other.publish([SequenceEnded(str(number))])
                await asyncio.sleep(0)
            await heard.until_count(600)
        full.unlink()


async def test_foreign_datagrams_are_ignored(database: Path) -> None:
    async with opened(database, database) as (one, other):
        heard = RecordingListener()
        await one.subscribe(heard)
        (mine,) = Path(f"{database}-notifications").iterdir()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
            for junk in (b"", b"junk", b"[]", b'{"s": 1}', b"\xff" * 100):
                stranger.sendto(junk, str(mine.relative_to(database.parent)))
        await other.publish([SequenceEnded("one")])
        await heard.until_count(1)
        assert heard.notifications == [SequenceEnded("one")]


@pytest.mark.parametrize("sockets", [True, False])
async def test_a_commit_that_nobody_announced_lets_one_idle_worker_look(
    database: Path, sockets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not sockets:
        monkeypatch.delattr("headway.notifiers.sqlite.socket.AF_UNIX")
    async with opened(database) as (notifier,):
        looked: list[int] = []
        for number in range(3):

            def look(_: NotifierStatus, number: int = number) -> None:
                looked.append(number)

            await notifier.subscribe(lambda _: None, interest_in(), on_status=look)
        looked.clear()
        writer = sqlite3.connect(database)
        writer.execute("insert into t values (1)")
        writer.commit()
        async with asyncio.timeout(60):
            while not looked:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        writer.close()
        assert len(looked) == 1


async def test_a_commit_that_was_announced_is_not_looked_for_again(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.notifiers.sqlite.LOOK_EVERY", 3600.0)
    async with opened(database, database) as (one, other):
        looked: list[str] = []
        monkeypatch.setattr(one._subscribers, "wake_one", lambda: looked.append("an idle worker"))
        heard = RecordingListener()
        await one.subscribe(heard, interest_in())
        connection: Any = one._connection
        writer = sqlite3.connect(database)
        writer.execute("insert into t values (1)")
        writer.commit()
        await other.publish([JobsScheduled("mail", "send", 1)])
        await heard.until_count(1)
        connection._timer.cancel()
        connection._look()
        assert looked == []
        writer.execute("insert into t values (2)")
        writer.commit()
        connection._timer.cancel()
        connection._look()
        writer.close()
        assert looked == ["an idle worker"]
