"""The floor of latency on PostgreSQL: insert, commit, NOTIFY and the listener's claim, done by hand
with the store's own statements. `python -m benchmarks.latency_floor DSN COUNT` is the listener.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import RawCursor

from headway.jobs.ids import new_id
from headway.stores.postgres.connections import SETTINGS
from headway.stores.sql.sql_files import load_statements

CHANNEL = "by_hand"
JOB_TYPE = "by_hand"
REST = (None, None, 0.0, None, None, JOB_TYPE, "default", 0, 4, 5, None, None, None, None, 0,
        None, "pending", 0, False, False)  # fmt: skip


def waits_by_hand(dsn: str, count: int, gap: float) -> list[float]:
    """Seconds from before the insert until another process has claimed the job, sorted."""
    insert = load_statements("headway.stores.postgres", '"headway".')["insert"].encode()
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.latency_floor", dsn, str(count)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline().strip() == "READY"
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(SETTINGS)
            cursor = RawCursor(connection)
            next_at = time.monotonic() + 0.3
            for _ in range(count):
                time.sleep(max(next_at - time.monotonic(), 0))
                sent = json.dumps({"sent": time.monotonic()})
                cursor.execute(insert, ([new_id()], [sent], [None], *REST))
                cursor.execute("select pg_notify($1, '')", (CHANNEL,))
                next_at += gap
        waits: list[float] = json.loads(process.stdout.readline())
        return sorted(waits)
    finally:
        process.kill()
        process.wait(30)
        process.stdout.close()


def listen(dsn: str, count: int) -> list[float]:
    claim = load_statements("headway.stores.postgres", '"headway".')["claim"].encode()
    waits: list[float] = []
    bound = "2001-01-01"
    with (
        psycopg.connect(dsn, autocommit=True) as ear,
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        connection.execute(SETTINGS)
        cursor = RawCursor(connection)
        ear.execute(f"listen {CHANNEL}")
        print("READY", flush=True)
        while len(waits) < count:
            for _ in ear.notifies(timeout=30, stop_after=1):
                pass
            token = str(uuid4())
            lane = (["default"], [0], [bound], [10])
            cursor.execute(
                claim, (*lane, None, 30.0, token, "by hand", [JOB_TYPE], 10, None, False)
            )
            for row in cursor.fetchall():
                waits.append(time.monotonic() - json.loads(row[4])["sent"])
                bound = max(str(bound), str(row[5]))
    return waits


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("dsn")
    parser.add_argument("count", type=int)
    options = parser.parse_args()
    print(json.dumps(listen(options.dsn, options.count)), flush=True)


if __name__ == "__main__":
    main()
