"""Part sqlite: four processes on one file, long readers, a full disk, an fsync that fails."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from proof.tools.databases import SqliteDatabase
from proof.tools.part_run import PartRun
from proof.tools.preloaded_library import compile_library
from proof.tools.producer import StartLog
from proof.tools.work import Work
from proof.tools.worker_group import worker_group

ROOT = Path(__file__).parents[2]
WORKERS = 4
SMALL = 4 << 20
"""Bytes of the disk that gets full."""

C_SOURCE = """
#include <errno.h>
#include <unistd.h>
#include <stdlib.h>
static int fails(void) { const char *f = getenv("FSYNC_FAILS"); return f && !access(f, F_OK); }
int fsync(int fd) { if (fails()) { errno = EIO; return -1; } return 0; }
int fdatasync(int fd) { return fsync(fd); }
"""


def prove(run: PartRun) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _share(run, SqliteDatabase(f"{folder}/proof.db"))
    with tempfile.TemporaryDirectory() as folder:
        _fill_disk(run, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        _fail_fsync(run, Path(folder))


def _share(run: PartRun, database: SqliteDatabase) -> None:
    seconds = 5 if run.short else 30
    with worker_group(run, database, lease_for=10.0, concurrency=10) as workers:
        for _ in range(WORKERS):
            workers.spawn()
        workers.produce()
        until = time.monotonic() + seconds
        longest = 0
        while time.monotonic() < until:
            with closing(sqlite3.connect(database.path)) as reader:
                reader.execute("begin")
                reader.execute("select count(*) from headway_job").fetchone()
                pause = time.monotonic() + 2.0
                while time.monotonic() < pause:
                    workers.look()
                    time.sleep(0.05)
            longest = max(longest, os.path.getsize(f"{database.path}-wal"))
        workers.drain(60)
        workers.stop()
        found, _ = workers.check_invariants("four processes")
        refused = workers.start_log.refused
    locked = database.ask("select count(*) from {job} where last_error like '%locked%'")[0][0]
    errors = database.ask("select count(*) from headway_attempt where error like '%locked%'")[0][0]
    run.check(not locked and not errors, f"'database is locked' reached {locked + errors} jobs")
    run.check(not refused, f"{refused} starts were refused")
    run.check(found["attempts"] == 0, f"{found['attempts']} attempts failed")
    run.figure("jobs by four processes", found["jobs"])
    run.figure("largest write-ahead log beside a reader, MB", round(longest / 1e6, 1))
    _check_integrity(run, database.path)


def _check_integrity(run: PartRun, path: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        said = connection.execute("pragma integrity_check").fetchone()[0]
    run.check(said == "ok", f"integrity check: {said}")


@contextlib.contextmanager
def _small_disk(folder: Path) -> Iterator[Path | None]:
    """A file system of a few megabytes, or None where we may not mount one."""
    disk = folder / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    options = ["-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(disk)]
    if (
        mount is None
        or subprocess.run([mount, *options], capture_output=True, check=False).returncode
    ):
        yield None
        return
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def _fill_disk(run: PartRun, folder: Path) -> None:
    with _small_disk(folder) as disk:
        if disk is None:
            run.leave_out("a full disk: no file system can be mounted here")
            return
        database = SqliteDatabase(str(disk / "proof.db"))
        database.prepare()
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(SMALL // 2))
        start_log = StartLog(folder / "start_log")
        refused = asyncio.run(_start_until_refused(database.dsn, start_log))
        run.figure("sequences acknowledged before the disk was full", len(start_log.ids))
        run.check("full" in refused, f"a full disk was reported as: {refused}")
        ballast.unlink()
        before = len(start_log.ids)
        asyncio.run(_start(database.dsn, start_log, 5))
        run.check(
            len(start_log.ids) == before + 5, "nothing could be started after space was freed"
        )
        stored = {row[0] for row in database.ask("select id from {job}")}
        lost = start_log.ids - stored
        run.check(not lost, f"{len(lost)} acknowledged jobs are lost on a full disk")
        start_log.close()
        _check_integrity(run, database.path)


async def _start_until_refused(dsn: str, start_log: StartLog) -> str:
    work = Work(dsn)
    async with work.app as app:
        for number in range(100_000):
            try:
                sequence = await app.start(work.good.request(number))
            except Exception as error:
                return f"{type(error).__name__}: {error}"
            start_log.note([sequence.id])
    return "never"


async def _start(dsn: str, start_log: StartLog, count: int) -> None:
    work = Work(dsn)
    async with work.app as app:
        for number in range(count):
            start_log.note([(await app.start(work.good.request(number))).id])


def _fail_fsync(run: PartRun, folder: Path) -> None:
    library = compile_library(C_SOURCE, folder)
    if library is None:
        run.leave_out("an fsync that fails: there is no C compiler for a preloaded library")
        return
    database = SqliteDatabase(str(folder / "proof.db"))
    database.prepare()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "proof.tools.failing_fsync", database.path, folder],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(library), "FSYNC_FAILS": str(folder / "fails")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if not run.check(done.returncode == 0, f"the starter failed: {done.stderr[-500:]}"):
        return
    refused, acknowledged, again = map(int, done.stdout.split())
    run.figure("starts refused while fsync failed", refused)
    run.check(refused > 0, "no start was refused while fsync failed")
    run.check(again > 0, "nothing could be started after fsync worked again")
    ids = set((folder / "start_log").read_text().split())
    lost = ids - {row[0] for row in database.ask("select id from {job}")}
    run.check(len(ids) == acknowledged + again, "the start_log does not add up")
    run.check(not lost, f"{len(lost)} acknowledged jobs are lost")
    _check_integrity(run, database.path)
