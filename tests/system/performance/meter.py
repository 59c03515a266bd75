"""What PostgreSQL and the wire say that a piece of work cost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import psycopg

from tests.system.performance.wire import CountingProxy

TABLES = """select
    coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0),
    coalesce(sum(coalesce(idx_tup_fetch, 0) + seq_tup_read), 0)
    from pg_stat_user_tables"""
STATEMENTS = """select query, calls from pg_stat_statements s
    join pg_database d on d.oid = s.dbid and d.datname = current_database()
    where query not like '%pg_stat%' and query not like 'set %'
    and query not like '%pg_backend_pid%' order by calls desc"""
"""Without what is set on a new connection: how many a pool opens is a matter of timing."""
SESSIONS = """select count(*) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()"""


@dataclass
class Cost:
    """Filled in when the work is over and its connections are closed."""

    round_trips: int = 0
    transactions: int = 0
    written: int = 0
    """Rows inserted, updated and deleted."""
    read: int = 0
    """Rows fetched, from indexes or by scans."""
    calls: dict[str, int] = field(default_factory=dict)
    """By statement."""

    @property
    def statements(self) -> int:
        return sum(self.calls.values())

    def __str__(self) -> str:
        head = (
            f"{self.statements} statements, {self.round_trips} round trips, {self.transactions} "
            f"transactions, {self.written} rows written, {self.read} read:"
        )
        lines = [f"  {calls:6} x {' '.join(sql.split())[:90]}" for sql, calls in self.calls.items()]
        return "\n".join([head, *lines])


@asynccontextmanager
async def metered(url: str) -> AsyncIterator[tuple[str, Cost]]:
    """A URL to do the work through, and what it cost. Whatever is connected through the URL must be
    closed inside the block: only then has PostgreSQL counted all of it."""
    server, _, database = url.rpartition("/")
    host, _, port = server.rpartition(":")
    cost = Cost()
    with psycopg.connect(url, autocommit=True) as meter:
        before = _read(meter)
        meter.execute("select pg_stat_statements_reset()")
        async with CountingProxy(int(port)) as proxy:
            yield f"{host}:{proxy.port}/{database}?sslmode=disable", cost
        while _one(meter, SESSIONS)[0]:
            await asyncio.sleep(0.01)
        cost.calls = dict(meter.execute(STATEMENTS).fetchall())
        cost.round_trips, cost.transactions = proxy.round_trips, proxy.transactions
        after = _read(meter)
    cost.written, cost.read = (now - then for then, now in zip(before, after, strict=True))


def _read(meter: psycopg.Connection) -> tuple[int, int]:
    meter.execute("select pg_stat_clear_snapshot()")
    written, read = _one(meter, TABLES)
    return int(written), int(read)


def _one(meter: psycopg.Connection, sql: str) -> tuple[int, ...]:
    row = meter.execute(sql.encode()).fetchone()
    assert row is not None
    return row
