"""A store that is full, busy or in other trouble fails no job; data that it cannot take does."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headway.domain.events import AttemptFailed, JobCompleted, StoreFailed
from headway.domain.job import JobState
from headway.domain.retry import Backoff
from headway.domain.settlement import Complete
from headway.errors import DataRefused
from headway.ports.statement import Operation, Statement
from headway.ports.store import Store
from headway.stores.mongodb import MongoStore
from headway.stores.operation_retry import OperationRetry
from headway.stores.postgres import PostgresStore
from headway.stores.sqlite import SqliteStore
from headway.testing.conformance.store.kit import complete, new_job, running
from tests.support.worker_harness import WorkerHarness

LARGE = "x" * 300_000
TROUBLES = 5
"""More than the store was once tried for before the job was given up."""
SOON = OperationRetry(tries=2, backoff=Backoff(base=0.001))


class Small(SqliteStore):
    """A disk that is nearly full: the file may not grow."""

    def _connect(
        self, busy_for: float, give_up_at: Callable[[], float] | None = None
    ) -> sqlite3.Connection:
        connection = super()._connect(busy_for, give_up_at)
        (pages,) = connection.execute("pragma page_count").fetchone()
        connection.execute(f"pragma max_page_count = {pages + 3}")
        return connection


class Brief(SqliteStore):
    """Takes no long texts."""

    def _connect(
        self, busy_for: float, give_up_at: Callable[[], float] | None = None
    ) -> sqlite3.Connection:
        connection = super()._connect(busy_for, give_up_at)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, len(LARGE))
        return connection


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.worker.failure_streak.LONGEST_PAUSE", 0.05)


async def work_through(store: Store, failures: Callable[[], Any], end: Callable[[], Any]) -> None:
    """A job succeeds, its outcome cannot be stored, and then it can."""
    harness = WorkerHarness(store)

    @harness.job
    async def large() -> str:
        failures()
        return LARGE

    (job_id,) = await harness.start(large.request())
    async with harness.working():
        await harness.until(lambda: len(harness.seen(StoreFailed, part="committer")) >= TROUBLES)
        done = end()
        if done is not None:
            await done
        await harness.event(JobCompleted)
    job = await harness.get(job_id)
    assert (job.state, job.attempts, job.losses) == (JobState.COMPLETED, 0, 0)
    assert not harness.seen(AttemptFailed)


async def test_a_full_disk_fails_no_job_on_sqlite(sqlite_path: Path) -> None:
    await SqliteStore(sqlite_path).migrate()
    store = Small(sqlite_path)

    def room() -> Operation[None]:
        yield Statement("pragma max_page_count = 1000000")

    await store.open()
    try:
        await work_through(store, lambda: None, lambda: store.run(room))
    finally:
        await store.close()


async def test_a_writer_that_keeps_the_lock_fails_no_job_on_sqlite(sqlite_path: Path) -> None:
    store = SqliteStore(sqlite_path, busy_for=0.01)
    await store.migrate()
    await store.open()
    try:
        with closing(sqlite3.connect(sqlite_path, isolation_level=None)) as other:
            await work_through(store, lambda: other.execute("begin immediate"), other.rollback)
    finally:
        await store.close()


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("53100", id="disk full"),
        pytest.param("53200", id="out of memory"),
        pytest.param("40P01", id="deadlock"),
        pytest.param("40001", id="serialization failure"),
        pytest.param("55P03", id="lock not available"),
        pytest.param("42501", id="privileges taken away"),
        pytest.param("XX000", id="internal error"),
    ],
)
async def test_a_troubled_server_fails_no_job_on_postgres(postgres_url: str, code: str) -> None:
    store = PostgresStore(postgres_url, retry=SOON)
    await store.migrate()
    await store.open()
    try:
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute(
                f"""
                create function failures() returns trigger language plpgsql as
                $$ begin raise exception 'failures' using errcode = '{code}'; end $$;
                create trigger failures before update on headway.job
                for each row when (new.state = 'completed') execute function failures()
                """.encode()
            )
            await work_through(
                store,
                lambda: None,
                lambda: other.execute("drop trigger failures on headway.job") and None,
            )
    finally:
        await store.close()


async def test_postgres_says_that_it_cannot_take_text(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    await store.migrate()
    await _refuses(store, "a NUL: \0")
    await _refuses(store, "half of a pair: \ud800")


async def test_sqlite_says_that_it_cannot_take_text(sqlite_path: Path) -> None:
    await SqliteStore(sqlite_path).migrate()
    await _refuses(Brief(sqlite_path), LARGE)


async def test_mongodb_says_that_a_document_is_too_large(mongo_url: str) -> None:
    store = MongoStore(mongo_url)
    await store.migrate()
    await _refuses(store, "x" * 16_800_000)
    await store.open()
    job = await running(store, input="x" * 9_000_000)
    with pytest.raises(DataRefused):
        await complete(store, job, output="x" * 9_000_000)
    await store.close()


async def _refuses(store: Store, text: str) -> None:
    """Both when a job is started, and when it ends."""
    await store.open()
    try:
        job = await running(store)
        completion = Complete(job.id, job.lease.token, text)
        for call in (
            lambda: store.run(store.insert, [new_job(input=text)]),
            lambda: store.run(store.settle, [completion]),
            lambda: asyncio.to_thread(store.run_sync, store.settle, [completion]),
        ):
            with pytest.raises(DataRefused, match="does not take this"):
                await call()
    finally:
        await store.close()
