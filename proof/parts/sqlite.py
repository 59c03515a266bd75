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

from proof.tools.databases import SqlitePlace
from proof.tools.preloaded_library import make_shim
from proof.tools.producer import Ledger
from proof.tools.report import Trial
from proof.tools.work import Work
from proof.tools.worker_group import herd

ROOT = Path(__file__).parents[2]
WORKERS = 4
SMALL = 4 << 20
"""Bytes of the disk that gets full."""

SHIM = """
#include <errno.h>
#include <unistd.h>
#include <stdlib.h>
static int fails(void) { const char *f = getenv("FSYNC_FAILS"); return f && !access(f, F_OK); }
int fsync(int fd) { if (fails()) { errno = EIO; return -1; } return 0; }
int fdatasync(int fd) { return fsync(fd); }
"""


def prove(trial: Trial) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _share(trial, SqlitePlace(f"{folder}/proof.db"))
    with tempfile.TemporaryDirectory() as folder:
        _fill_disk(trial, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        _fail_fsync(trial, Path(folder))


def _share(trial: Trial, place: SqlitePlace) -> None:
    seconds = 5 if trial.short else 30
    with herd(trial, place, lease_for=10.0, concurrency=10) as workers:
        for _ in range(WORKERS):
            workers.spawn()
        workers.produce()
        until = time.monotonic() + seconds
        longest = 0
        while time.monotonic() < until:
            with closing(sqlite3.connect(place.path)) as reader:
                reader.execute("begin")
                reader.execute("select count(*) from headway_job").fetchone()
                pause = time.monotonic() + 2.0
                while time.monotonic() < pause:
                    workers.look()
                    time.sleep(0.05)
            longest = max(longest, os.path.getsize(f"{place.path}-wal"))
        workers.drain(60)
        workers.stop()
        found, _ = workers.balance("four processes")
        refused = workers.ledger.refused
    locked = place.ask("select count(*) from {job} where last_error like '%locked%'")[0][0]
    errors = place.ask("select count(*) from headway_attempt where error like '%locked%'")[0][0]
    trial.check(not locked and not errors, f"'database is locked' reached {locked + errors} jobs")
    trial.check(not refused, f"{refused} starts were refused")
    trial.check(found["attempts"] == 0, f"{found['attempts']} attempts failed")
    trial.figure("jobs by four processes", found["jobs"])
    trial.figure("largest write-ahead log beside a reader, MB", round(longest / 1e6, 1))
    _check_integrity(trial, place.path)


def _check_integrity(trial: Trial, path: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        said = connection.execute("pragma integrity_check").fetchone()[0]
    trial.check(said == "ok", f"integrity check: {said}")


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


def _fill_disk(trial: Trial, folder: Path) -> None:
    with _small_disk(folder) as disk:
        if disk is None:
            trial.leave_out("a full disk: no file system can be mounted here")
            return
        place = SqlitePlace(str(disk / "proof.db"))
        place.prepare()
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(SMALL // 2))
        ledger = Ledger(folder / "ledger")
        refused = asyncio.run(_start_until_refused(place.dsn, ledger))
        trial.figure("sequences acknowledged before the disk was full", len(ledger.ids))
        trial.check("full" in refused, f"a full disk was reported as: {refused}")
        ballast.unlink()
        before = len(ledger.ids)
        asyncio.run(_start(place.dsn, ledger, 5))
        trial.check(len(ledger.ids) == before + 5, "nothing could be started after space was freed")
        stored = {row[0] for row in place.ask("select id from {job}")}
        lost = ledger.ids - stored
        trial.check(not lost, f"{len(lost)} acknowledged jobs are lost on a full disk")
        ledger.close()
        _check_integrity(trial, place.path)


async def _start_until_refused(dsn: str, ledger: Ledger) -> str:
    work = Work(dsn)
    async with work.app as app:
        for number in range(100_000):
            try:
                sequence = await app.start(work.good.request(number))
            except Exception as error:
                return f"{type(error).__name__}: {error}"
            ledger.note([sequence.id])
    return "never"


async def _start(dsn: str, ledger: Ledger, count: int) -> None:
    work = Work(dsn)
    async with work.app as app:
        for number in range(count):
            ledger.note([(await app.start(work.good.request(number))).id])


def _fail_fsync(trial: Trial, folder: Path) -> None:
    library = make_shim(SHIM, folder)
    if library is None:
        trial.leave_out("an fsync that fails: there is no C compiler to make a shim with")
        return
    place = SqlitePlace(str(folder / "proof.db"))
    place.prepare()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "proof.tools.failing_fsync", place.path, folder],
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(library), "FSYNC_FAILS": str(folder / "fails")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if not trial.check(done.returncode == 0, f"the starter failed: {done.stderr[-500:]}"):
        return
    refused, acknowledged, again = map(int, done.stdout.split())
    trial.figure("starts refused while fsync failed", refused)
    trial.check(refused > 0, "no start was refused while fsync failed")
    trial.check(again > 0, "nothing could be started after fsync worked again")
    ids = set((folder / "ledger").read_text().split())
    lost = ids - {row[0] for row in place.ask("select id from {job}")}
    trial.check(len(ids) == acknowledged + again, "the ledger does not add up")
    trial.check(not lost, f"{len(lost)} acknowledged jobs are lost")
    _check_integrity(trial, place.path)
