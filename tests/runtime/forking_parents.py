"""Processes that fork after they have used an app. Each prints nothing and ends with 0 if all
went well: `python -m tests.runtime.forking_parents <name>`."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import socket
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headway.errors import ConfigurationError, StoreClosed, StoreError

CHILDREN = 3
PATIENCE = 20.0


def fork(work: Callable[[], object]) -> int:
    """A child that does it and ends as any program does, with all that happens at exit."""
    pid = os.fork()
    if pid == 0:
        work()
        sys.exit(0)
    return pid


def reap(*pids: int) -> None:
    for pid in pids:
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0, status


@contextmanager
def working_on() -> Iterator[list[str]]:
    """The parent starts jobs in two threads meanwhile; the ids."""
    from tests.runtime.preloaded_shop import app, greet

    stopped = threading.Event()
    ids: list[str] = []

    def work() -> None:
        while not stopped.is_set():
            ids.append(app.sync.start(greet.request("parent")).id)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield ids
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def total() -> int:
    from tests.runtime.preloaded_shop import app

    return sum(each.count for each in app.sync.counts())


def pool() -> None:
    _pool("fork")


def forkserver() -> None:
    multiprocessing.set_forkserver_preload(["tests.runtime.preloaded_shop"])
    _pool("forkserver")


def _pool(method: str) -> None:
    from tests.runtime.preloaded_shop import app, greet, start_some

    already = total()
    with working_on() as ours, multiprocessing.get_context(method).Pool(CHILDREN) as children:
        theirs = list(itertools.chain(*children.map(start_some, range(12), chunksize=1)))
        app.sync.start(greet.request("while they live"))
    imported = 1 if method == "forkserver" else 0
    assert len(set(theirs) | set(ours)) == len(theirs) + len(ours) == len(ours) + 60
    assert total() == already + len(theirs) + len(ours) + 1 + imported


def prefork() -> None:
    """Like Celery: children are replaced, while threads of the parent hold locks."""
    from tests.runtime.preloaded_shop import start_some

    already = total()
    with working_on() as ours:
        running = [fork(lambda n=n: start_some(n)) for n in range(CHILDREN)]
        for number in range(CHILDREN, 12):
            reap(running.pop(0))
            running.append(fork(lambda n=number: start_some(n)))
        reap(*running)
        seen = len(ours)
        while len(ours) < seen + 10:  # the parent goes on
            os.sched_yield()
    assert total() == already + 12 * 5 + len(ours)


def preload() -> None:
    """Like gunicorn: import, listen, fork children that accept."""
    from tests.runtime.preloaded_shop import start_some

    already = total()
    listener = socket.create_server(("127.0.0.1", 0))
    requests = 30

    def serve() -> None:
        for _ in range(requests // CHILDREN):
            connection, _ = listener.accept()
            with connection:
                ids = start_some(int(connection.recv(100)))
                connection.sendall(",".join(ids).encode())

    children = [fork(serve) for _ in range(CHILDREN)]
    answers: list[str] = []
    for number in range(requests):
        with socket.create_connection(listener.getsockname(), timeout=60) as client:
            client.sendall(str(number).encode())
            client.shutdown(socket.SHUT_WR)
            answers += client.makefile().read().split(",")
    reap(*children)
    assert len(set(answers)) == len(answers) == requests * 5
    assert total() == already + len(answers)


def grandchildren() -> None:
    from tests.runtime.preloaded_shop import start_some

    already = total()

    def child() -> None:
        start_some(1)
        reap(fork(lambda: start_some(2)))
        start_some(3)

    reap(fork(child))
    start_some(4)
    assert total() == already + 20


def worker_in_a_child() -> None:
    """The app that the parent has open is refused in the child, which may open it itself."""
    from tests.runtime.preloaded_shop import app, greet

    async def work() -> None:
        with pytest.raises(StoreClosed, match="again in a process that was forked"):
            await app.start(greet.request("too early"))
        async with app:
            await app.worker(poll_every=0.05).run(drain=True)

    async def wait() -> None:
        async with app:
            sequence = await app.start(greet.request("you"))
            sockets = set(Path.cwd().glob("*/*.socket"))
            # It must not end through the frames of the parent's event loop.
            child = multiprocessing.get_context("fork").Process(target=lambda: asyncio.run(work()))
            child.start()
            assert await sequence.result(timeout=60) == "hello you"
            await asyncio.to_thread(child.join)
            assert child.exitcode == 0
            assert sockets <= set(Path.cwd().glob("*/*.socket"))
            assert (await app.get(sequence)).output == '"hello you"'

    asyncio.run(wait())
    assert not [each for each in app.sync.counts() if each.state == "pending"]


def notifications() -> None:
    """A child's commit notifies its parent."""
    from tests.runtime.preloaded_shop import app, greet

    async def start() -> None:
        async with app:
            await app.start(greet.request("from a child"))

    async def listen() -> None:
        heard = asyncio.Event()
        async with app:
            unsubscribe = await app.notifier.subscribe(lambda _: heard.set())
            child = multiprocessing.get_context("fork").Process(target=lambda: asyncio.run(start()))
            child.start()
            await asyncio.to_thread(child.join)
            assert child.exitcode == 0
            await heard.wait()
            await unsubscribe()

    asyncio.run(listen())


def worker_from_before() -> None:
    from tests.runtime.preloaded_shop import app

    worker = app.worker()

    async def run() -> None:
        async with app:
            await worker.run(drain=True)

    def child() -> None:
        with pytest.raises(ConfigurationError, match="before this process was forked"):
            asyncio.run(run())

    reap(fork(child))
    asyncio.run(run())


def open_transaction() -> None:
    """SQLite cannot be used in the child of a process that was writing; the parent goes on."""
    from tests.runtime.preloaded_shop import app, greet, start_some

    def child() -> None:
        for _ in range(2):
            with pytest.raises(StoreError, match="was in use when this process was forked"):
                start_some(1)
            reap(fork(lambda: None))

    async def write() -> None:
        async with app, app.store.begin() as tx:
            assert isinstance(tx, sqlite3.Connection)
            sequence = await app.start(greet.request("in a transaction"), tx=tx)
            process = multiprocessing.get_context("fork").Process(target=child)
            process.start()
            process.join()
            assert process.exitcode == 0
        async with app:
            await app.get(sequence)

    asyncio.run(write())
    already = total()
    reap(fork(lambda: start_some(1)))
    assert total() == already + 5


def memory() -> None:
    from tests.runtime.preloaded_shop import app, start_some

    def child() -> None:
        with pytest.raises(StoreError, match="its jobs stay in the parent"):
            start_some(1)

    reap(fork(child))
    start_some(1)
    app.sync.close()


def waiting_for_threads() -> None:
    """Whom a fork waits for may use an executor, as a transaction does that is committed."""
    from headway.runtime.forks import Forkable

    class Waits(Forkable):
        def before_fork(self) -> None:
            used = threading.Thread(target=use, daemon=True)
            used.start()
            used.join(PATIENCE)
            answered.append(not used.is_alive())

        def in_child(self) -> None: ...

    def use() -> None:
        with ThreadPoolExecutor() as executor:
            executor.submit(int).result()

    answered: list[bool] = []
    waits = Waits()
    from concurrent.futures import ThreadPoolExecutor  # as late as asyncio does

    use()
    waits.watch_forks()
    reap(fork(lambda: None))
    assert answered == [True]


if __name__ == "__main__":
    globals()[sys.argv[1]]()
