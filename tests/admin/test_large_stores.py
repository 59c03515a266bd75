"""No question reads a whole table: what each looks at is counted, on stores with very many jobs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from headway import Headway, JobState
from headway.domain.filters import parse_filter
from headway.domain.queries import JobFilter
from headway.domain.views import Count, JobAction, ShownState
from headway.drivers.postgres_statement_parameters import text_parameters
from headway.drivers.sqlite import execute
from headway.ports.statement import Row, Statement
from headway.stores.postgres.connections import SETTINGS, PostgresRunner
from headway.stores.sqlite import threads
from tests.admin.large_stores import fill_postgres, fill_sqlite

pytestmark = [pytest.mark.long, pytest.mark.slow]

MILLION, MANY = 1_000_000, 200_000

FILTERS = [
    "",
    "state:failed",
    "state:pending",
    "state:scheduled",
    "state:running",
    "state:blocked",
    "state:completed",
    "state:cancelled state:failed",
    "state:pending state:running state:blocked",
    "state:completed queue:queue2",
    "state:pending type:type3",
    "type:type3",
    "type:ty*",
    "type:nothing",
    "queue:nothing",
    "worker:worker1",
    "worker:nobody",
    "key:nothing",
    "schedule:nothing",
    "args.order_id:7",
    "args.note:ä",
    "error:order",
    "error:timeout",
    "fingerprint:0000",
    "fingerprint:000000000032",
    "created:<1h",
    "created:>1h",
    "finished:<10s",
    "finished:>1h",
    "state:failed queue:queue0 error:7",
    "timeout",
    "type3 state:failed",
]


def questions(app: Headway, failed: str, blocked: str) -> dict[str, Callable[[], Awaitable[Any]]]:
    insights = app.questions
    asked: dict[str, Callable[[], Awaitable[Any]]] = {
        "overview": insights.overview,
        "overview of a week": lambda: insights.overview(minutes=7 * 24 * 60),
        "queues": insights.queues,
        "types": insights.types,
        "workers": insights.workers,
        "audit": insights.audit,
        "check": insights.check,
        "failures": lambda: insights.failures(JobFilter()),
        "failures of a queue": lambda: insights.failures(parse_filter("queue:queue0")),
        "failures by error": lambda: insights.failures(parse_filter("error:order")),
        "job": lambda: insights.job(failed),
        "job by the ending of its id": lambda: insights.job(failed[-8:]),
        "why": lambda: insights.why(blocked),
        "graph": lambda: insights.graph(failed),
        "sequences": lambda: insights.sequences(JobFilter()),
        "sequences that failed": lambda: insights.sequences(parse_filter("state:failed")),
    }
    for text in FILTERS:
        which = parse_filter(text)
        asked[f"jobs {text}"] = partial(insights.jobs, which)
        asked[f"count {text}"] = partial(insights.count, which)
    for text in (f"id:{failed}", f"sequence:{failed}", f"root:{failed}"):
        which = parse_filter(text)
        asked[f"jobs {text[:8]}"] = partial(insights.jobs, which)
    return asked


async def samples(app: Headway) -> tuple[str, str]:
    (failed,) = (await app.list(state="failed", limit=1)).jobs
    (blocked,) = (await app.list(state="blocked", limit=1)).jobs
    return failed.id, blocked.id


async def agrees(app: Headway, rows: int) -> None:
    """What is estimated is near the truth, and what can be exact is."""
    states = (await app.questions.overview()).states
    assert states[ShownState.RUNNING] == Count(rows // 2_000)
    assert states[ShownState.BLOCKED] == Count(rows // 500)
    near(states[ShownState.COMPLETED], rows * 0.9225)
    near(states[ShownState.PENDING], rows * 0.05 * 2 / 3)
    near(states[ShownState.SCHEDULED], rows * 0.05 / 3)
    near(states[ShownState.FAILED], rows * 0.02)
    queue = next(each for each in await app.questions.queues() if each.name == "queue2")
    near(queue.states[ShownState.COMPLETED], rows / 5, 0.2)
    throughput = (await app.questions.overview(minutes=60)).throughput
    for bucket in throughput[:-1]:
        assert bucket.completed == pytest.approx(rows * 0.9225 / 120, rel=0.25)
    groups = await app.questions.failures(JobFilter())
    assert len(groups) == 8
    assert sum(group.count.value for group in groups) == rows // 50
    assert all(group.count.exact for group in groups)


def near(found: Count, truth: float, rel: float = 0.15) -> None:
    assert found.exact is (found.value == round(truth) and found.exact)
    assert found.value == pytest.approx(truth, rel=rel)


async def pages_lead_everywhere(app: Headway) -> None:
    """A filter that no index serves comes to its end, and finds what is far down."""
    which = parse_filter("args.order_id:77777")
    cursor: str | None = None
    found: list[str] = []
    pages = 0
    while True:
        page = await app.questions.jobs(which, cursor=cursor)
        found += [job.input for job in page.jobs]
        pages += 1
        cursor = page.cursor
        if cursor is None:
            break
    assert len(found) == 1
    assert 5 < pages < 200


# PostgreSQL: the plan of every statement, and how many rows it looks at.

MOST_ROWS = 40_000
"""Of a statement: what is looked at for a sample, for a count, or for a page."""


@pytest.fixture
async def million(postgres_url: str) -> AsyncIterator[Headway]:
    await fill_postgres(postgres_url, MILLION)
    async with Headway(postgres_url) as app:
        yield app


async def test_a_million_on_postgres(
    million: Headway, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Statement] = []
    run = PostgresRunner.execute

    async def recorded(self: PostgresRunner, statement: Statement) -> Sequence[Row]:
        asked.append(statement)
        return await run(self, statement)

    monkeypatch.setattr(PostgresRunner, "execute", recorded)
    failed, blocked = await samples(million)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.prepare_threshold = None
        connection.execute(SETTINGS)
        for name, question in questions(million, failed, blocked).items():
            asked.clear()
            await question()
            for statement in asked:
                plan = explained(connection, statement)
                scans = list(scans_of_jobs(plan))
                assert not [scan for scan in scans if scan["Node Type"] == "Seq Scan"], name
                looked_at = sum(map(rows_of, scans))
                assert looked_at <= MOST_ROWS, f"{name}: {looked_at} rows\n{statement.sql}"
    await agrees(million, MILLION)
    await pages_lead_everywhere(million)
    await everything_can_be_acted_on(million, MILLION // 200)


def explained(connection: psycopg.Connection, statement: Statement) -> dict[str, Any]:
    """The plan as the store's own connections make it, and what running it takes."""
    connection.execute("deallocate all")
    connection.execute(f"prepare asked as {statement.sql}".encode())
    given = [sql.Literal(value) for value in text_parameters(statement)]
    call = sql.SQL("({})").format(sql.SQL(", ").join(given)) if given else sql.SQL("")
    row = connection.execute(
        sql.SQL("explain (analyze, format json) execute asked{}").format(call)
    ).fetchone()
    assert row is not None
    plan = row[0] if isinstance(row[0], list) else json.loads(row[0])
    found: dict[str, Any] = plan[0]["Plan"]
    return found


def scans_of_jobs(plan: dict[str, Any]) -> list[dict[str, Any]]:
    found = [plan] if plan.get("Relation Name") == "job" else []
    for part in plan.get("Plans", ()):
        found += scans_of_jobs(part)
    return found


def rows_of(scan: dict[str, Any]) -> float:
    filtered = scan.get("Rows Removed by Filter", 0) + scan.get("Rows Removed by Index Recheck", 0)
    looked_at: float = (scan["Actual Rows"] + filtered) * scan["Actual Loops"]
    return looked_at


async def everything_can_be_acted_on(app: Headway, cancelled: int) -> None:
    """All over a filter, in batches, while the table is full of other jobs."""
    operator = app.actions("anna")
    cursor: str | None = None
    changed = 0
    while True:
        batch = await operator.act_on_all(
            JobAction.DELETE, JobFilter(states=(JobState.CANCELLED,)), cursor=cursor
        )
        changed += batch.changed
        cursor = batch.cursor
        if cursor is None:
            break
    assert changed == cancelled
    assert await app.questions.count(parse_filter("state:cancelled")) == Count(0)


# SQLite: how many steps its machine takes.

MOST_STEPS = 3_000_000
"""Reading 200,000 jobs, whatever is done with them, takes more."""
EVERY = 1_000


@pytest.fixture
async def many(sqlite_path: Path) -> AsyncIterator[Headway]:
    await fill_sqlite(sqlite_path, MANY)
    async with Headway(f"sqlite:///{sqlite_path}") as app:
        yield app


async def test_200_000_on_sqlite(many: Headway, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    statements: dict[int, str] = {}

    def counted(connection: sqlite3.Connection, statement: Statement) -> Sequence[Row]:
        nonlocal steps
        before = steps

        def count() -> int:
            nonlocal steps
            steps += EVERY
            return 0

        connection.set_progress_handler(count, EVERY)
        try:
            return execute(connection, statement)
        finally:
            connection.set_progress_handler(None, 0)
            statements[steps - before] = statement.sql

    monkeypatch.setattr(threads, "execute", counted)
    await many.counts()
    assert steps > MOST_STEPS  # the yardstick
    failed, blocked = await samples(many)
    for name, question in questions(many, failed, blocked).items():
        statements.clear()
        await question()
        most = max(statements)
        assert most <= MOST_STEPS, f"{name}: {most} steps\n{statements[most]}"
    await agrees(many, MANY)
    await pages_lead_everywhere(many)
    await everything_can_be_acted_on(many, MANY // 200)
