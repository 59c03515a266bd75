"""Checks of an SQLite file: durability, write-ahead log, disk space."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

from headway.app import Headway
from headway.cli.doctor.findings import fail, ok, warn
from headway.cli.json_results import Diagnosis

LARGE_LOG = 512 * 2**20
"""Bytes of the write-ahead log after which somebody keeps it from being folded in."""
LITTLE_ROOM = 256 * 2**20
SYNCHRONOUS = {0: "off", 1: "normal", 2: "full", 3: "extra"}


async def examine_sqlite(app: Headway) -> list[Diagnosis]:
    async with app.store.begin() as connection:
        mode = str(_one(connection, "pragma journal_mode"))
        level = SYNCHRONOUS.get(int(_one(connection, "pragma synchronous")), "unknown")
        file = Path(str(connection.execute("pragma database_list").fetchone()[2]))
    return [
        ok("library", f"SQLite {sqlite3.sqlite_version}"),
        _durability(mode, level),
        _log(file.with_name(f"{file.name}-wal")),
        _room(file),
    ]


def _one(connection: Any, sql: str) -> Any:
    return connection.execute(sql).fetchone()[0]


def _durability(mode: str, level: str) -> Diagnosis:
    if mode != "wal":
        return fail(
            "durability",
            f"the journal mode is {mode}, not wal: readers and writers keep one another waiting",
            "Move the file to a local disk; network file systems do not take WAL.",
        )
    if level not in ("full", "extra"):
        return warn(
            "durability",
            f"synchronous is {level}: a power cut may forget the last moments",
            "Leave synchronous to Headway, which sets it to full.",
        )
    return ok("durability", f"journal mode {mode}, synchronous {level}: commits survive a crash")


def _log(log: Path) -> Diagnosis:
    size = log.stat().st_size if log.exists() else 0
    if size < LARGE_LOG:
        return ok("write-ahead log", f"{size / 2**20:.1f} MiB")
    return warn(
        "write-ahead log",
        f"{size / 2**20:,.0f} MiB and growing: some reader has been open for long",
        "Close programs that keep a transaction open on this file.",
    )


def _room(file: Path) -> Diagnosis:
    usage = shutil.disk_usage(file.parent)
    size = file.stat().st_size
    shown = f"the file has {size / 2**20:,.1f} MiB, the disk {usage.free / 2**20:,.0f} MiB free"
    if usage.free > max(LITTLE_ROOM, size / 10):
        return ok("disk", shown)
    return warn("disk", shown, "Make room: a full disk stops every start and every completion.")
