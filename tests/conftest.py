"""Fixtures for all tests: real servers, fresh databases, and nothing left running."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NoReturn

import hypothesis
import pytest

from tests.support import leftovers
from tests.support.observed_app import ObservedApp
from tests.support.servers.mongodb import MongoReplicaSet
from tests.support.servers.postgres import PostgresBinaries, PostgresServer
from tests.support.shop import Shop
from tests.support.stores import KINDS, store_urls
from tests.support.worker_harness import WorkerHarness

GRACE = 5.0
"""Seconds that processes, threads and tasks have for ending after a test."""

# A busy machine is not a failed test; pytest-timeout ends what hangs. Every change is judged by the
# same examples; who looks for others takes `--hypothesis-profile explore`.
hypothesis.settings.register_profile("headway", deadline=None, print_blob=True, derandomize=True)
hypothesis.settings.register_profile(
    "explore", deadline=None, print_blob=True, derandomize=False, max_examples=5_000
)
hypothesis.settings.load_profile("headway")


NOT_VERIFIED = "NOT VERIFIED: "
RUN = pytest.StashKey[leftovers.Run]()
LEFT = pytest.StashKey[list[leftovers.Process]]()


def pytest_configure(config: pytest.Config) -> None:
    # Who is started with SIGINT ignored, as by `make test &`, passes that on; tests send Ctrl-C.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):  # for the whole run, not for each process of xdist's
        config.stash[RUN] = leftovers.Run()


@pytest.hookimpl(trylast=True)  # when all fixtures and all processes of xdist's are gone
def pytest_sessionfinish(session: pytest.Session) -> None:
    run = session.config.stash.get(RUN, None)
    if run is None:
        return
    session.config.stash[LEFT] = left = run.end()
    if left and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def not_verified(reason: str) -> NoReturn:
    """Skip a test because this machine lacks something; the summary of the run says so."""
    pytest.skip(NOT_VERIFIED + reason)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if left := config.stash.get(LEFT, []):
        terminalreporter.section("LEFT RUNNING", sep="!", red=True, bold=True)
        terminalreporter.line("These processes outlived the tests, and were killed:")
        for process in left:
            terminalreporter.line(f"  {process}")
    missed: dict[str, list[str]] = {}
    for report in terminalreporter.stats.get("skipped", ()):
        if isinstance(report.longrepr, tuple) and NOT_VERIFIED in report.longrepr[2]:
            missed.setdefault(report.longrepr[2].split(NOT_VERIFIED)[1], []).append(report.nodeid)
    for reason, tests in missed.items():
        terminalreporter.section("NOT VERIFIED", sep="!", red=True, bold=True)
        terminalreporter.line(f"{reason}. These tests did not run:")
        for test in sorted(tests):
            terminalreporter.line(f"  {test}")


DROPPING = ("dropped_sockets", "mongo", "redis", "valkey", "nats", "asyncpg")
"""Tests with one of these words in their name use drivers that leave a socket unclosed when they
give up connecting or are cancelled."""


def may_drop_sockets(item: pytest.Item) -> bool:
    names = (item.nodeid.lower(), *getattr(item, "fixturenames", ()))
    if "stores/test_conformance" in item.nodeid:  # many tests, in which nobody gives up
        return False
    return any(word in name for word in DROPPING for name in names)


def pytest_itemcollected(item: pytest.Item) -> None:
    if may_drop_sockets(item):
        for what in ("<socket", "transport"):
            item.add_marker(pytest.mark.filterwarnings(f"ignore:unclosed {what}:ResourceWarning"))


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: the garbage collector need not look at them again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Collect such sockets here, where the warning is ignored, and not in a later test."""
    if may_drop_sockets(item):
        gc.collect()


@pytest.fixture
def dropped_sockets() -> None:
    """For other tests in which a driver gives up connecting."""


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The PostgreSQL that most tests use; it loses data in a crash, for speed."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def second_postgres_binaries(postgres_server: PostgresServer) -> PostgresBinaries | None:
    """A PostgreSQL of another major version than `postgres_server`, if the machine has one."""
    return PostgresBinaries.find(other_than=postgres_server.major)


@pytest.fixture(scope="session")
def _second_postgres_server(
    second_postgres_binaries: PostgresBinaries | None,
) -> Iterator[PostgresServer | None]:
    if second_postgres_binaries is None:
        yield None
        return
    with PostgresServer(second_postgres_binaries) as server:
        yield server


@pytest.fixture
def second_postgres_server(
    postgres_server: PostgresServer,
    _second_postgres_server: PostgresServer | None,
) -> PostgresServer:
    """A server of another major version; without one the summary says NOT VERIFIED."""
    if _second_postgres_server is None:
        not_verified(f"This machine has no PostgreSQL besides version {postgres_server.major}")
    return _second_postgres_server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh, empty database."""
    name = postgres_server.create_database()
    yield postgres_server.url(name)
    postgres_server.drop_database(name)


@pytest.fixture
def second_postgres_url(second_postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh, empty database on the server of another major version."""
    name = second_postgres_server.create_database()
    yield second_postgres_server.url(name)
    second_postgres_server.drop_database(name)


@pytest.fixture(scope="session")
def mongo_replica_set() -> Iterator[MongoReplicaSet]:
    """The MongoDB that most tests use: one node, with its data in memory, for speed."""
    with MongoReplicaSet() as replica_set:
        yield replica_set


@pytest.fixture
def mongo_url(mongo_replica_set: MongoReplicaSet) -> str:
    """A fresh, empty database."""
    return mongo_replica_set.url(mongo_replica_set.new_database())


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    """Path for a SQLite file that does not exist yet."""
    return tmp_path / "headway.db"


@pytest.fixture
async def harness() -> AsyncIterator[WorkerHarness]:
    harness = WorkerHarness()
    await harness.store.open()
    yield harness
    await harness.store.close()


store_url = store_urls(*KINDS)


@pytest.fixture
async def shop(store_url: str) -> AsyncIterator[Shop]:
    shop = Shop(store_url, migrate=True)
    async with shop.app:
        yield shop


@pytest.fixture
async def observed(store_url: str) -> AsyncIterator[ObservedApp]:
    observed = ObservedApp(store_url)
    async with observed.app:
        yield observed


@pytest.fixture(autouse=True)
def _no_modules_of_other_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forget modules that a test wrote and imported: the next test's `app.py` is another one."""
    before = set(sys.modules)
    yield
    written = str(tmp_path_factory.getbasetemp())
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(written):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def no_leaked_processes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a Python process behind, and kill the process."""
    os.environ[leftovers.TEST] = name = request.node.nodeid
    before = leftovers.numbers()
    yield
    del os.environ[leftovers.TEST]
    left = leftovers.kill_what_stays(lambda: leftovers.of_test(name, before), GRACE)
    if left:
        listed = "\n".join(f"  {process.pid}: {process.command}" for process in left)
        pytest.fail(f"processes still running {GRACE:.0f} s after the test:\n{listed}")


@pytest.fixture(autouse=True)
def no_leaked_threads(no_leaked_processes: None) -> Iterator[None]:
    """Fail a test that leaves a thread behind, daemon or not."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + GRACE
    for thread in set(threading.enumerate()) - before:
        thread.join(max(0.0, deadline - time.monotonic()))
    leaked = sorted(thread.name for thread in set(threading.enumerate()) - before)
    if leaked:
        pytest.fail(f"threads still running {GRACE:.0f} s after the test: {', '.join(leaked)}")


@pytest.fixture(autouse=True)
def no_leaked_tasks(request: pytest.FixtureRequest, no_leaked_threads: None) -> None:
    """Fail an async test that leaves a task behind; a test without a loop is not given one."""
    if inspect.iscoroutinefunction(getattr(request.node, "function", None)):
        request.getfixturevalue("_no_leaked_tasks")


@pytest.fixture
async def _no_leaked_tasks() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    # What is left now would be cancelled, unseen, when the loop is closed.
    leaked = asyncio.all_tasks() - before - {asyncio.current_task()}
    if leaked:
        _, leaked = await asyncio.wait(leaked, timeout=GRACE)
    if leaked:
        names = "\n".join(f"  {task!r}" for task in leaked)
        pytest.fail(f"tasks still running {GRACE:.0f} s after the test:\n{names}")
