"""What NOTIFY costs those who commit: eight producers that insert one job per transaction, with no
NOTIFY, with one after the commit, and with one inside the transaction, while somebody listens."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.context import SpawnContext
from typing import Any

import psycopg
from psycopg import RawCursor, sql

from headway.jobs.ids import new_id
from headway.notifiers.postgres import channel_name
from headway.ports.notifications import Topic
from headway.stores.postgres.connections import SETTINGS
from headway.stores.sql.sql_files import load_statements

MODES = ("none", "after the commit", "in the transaction")
PRODUCERS = 8
TEXT = '{"n":1,"text":"' + "x" * 100 + '"}'
REST = (None, None, 0.0, None, None, "noop", "default", 0, 4, 5, None, None, None, None, 0,
        None, "pending", 0, False, False)  # fmt: skip
NOTIFICATIONS = (
    '{"s":[{"kind":"scheduled","queue":"default","type":"noop","count":1,"run_at":null}]}'
)


def commits_per_second(dsn: str, mode: str, seconds: float) -> float:
    """Transactions per second of all producers together."""
    context = multiprocessing.get_context("spawn")
    barrier, counts = context.Barrier(PRODUCERS), context.Queue()
    producers = [_start(context, dsn, mode, seconds, barrier, counts) for _ in range(PRODUCERS)]
    with psycopg.connect(dsn, autocommit=True) as ear:
        channel = sql.Identifier(channel_name("headway", Topic.SCHEDULED))
        ear.execute(sql.SQL("listen {}").format(channel))
        while any(producer.is_alive() for producer in producers):
            for _ in ear.notifies(timeout=0.5):
                pass
    total = sum(counts.get(timeout=30) for _ in producers)
    for producer in producers:
        producer.join(30)
    return total / seconds


def _start(context: SpawnContext, *args: Any) -> Any:
    producer = context.Process(target=produce, args=args, daemon=True)
    producer.start()
    return producer


def produce(dsn: str, mode: str, seconds: float, barrier: Any, counts: Any) -> None:
    insert = load_statements("headway.stores.postgres", '"headway".')["insert"].encode()
    channel = channel_name("headway", Topic.SCHEDULED)
    notify = b"select pg_notify($1, $2)"
    after = b"select set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(SETTINGS)
        cursor = RawCursor(connection)
        barrier.wait(60)
        count = 0
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            connection.execute("begin")
            cursor.execute(insert, ([new_id()], [TEXT], [None], *REST))
            if mode == "in the transaction":
                cursor.execute(notify, (channel, NOTIFICATIONS))
            connection.execute("commit")
            if mode == "after the commit":  # as the notifier does: it costs no fsync
                cursor.execute(after, (channel, NOTIFICATIONS))
            count += 1
    counts.put(count)
