"""Checks of a run with limits: the record, the auditor's samples, and that everything ends."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from statistics import median

from proof.limits.auditor import Auditor
from proof.limits.load import Load
from proof.limits.record import Note, Playback, read
from proof.limits.work import BIG, SMALL
from proof.limits.workers import Workers
from proof.tools.databases import Database, left
from proof.tools.part_run import PartRun

LEASE = 3.0
SETTINGS = {"lease_for": LEASE, "concurrency": 20, "poll_every": 1.0}
RECOVERY = LEASE + 2.0
"""The lease, a second for the reaper, and another one for slow machines."""
HANDOVER = 0.25
"""Seconds from the end of a job to the next start in a full queue, in the median: on an idle
machine it is a few milliseconds."""
ROUNDS = 2
DRAIN = 60.0


def drain(run: PartRun, database: Database, load: Load, workers: Workers) -> None:
    """Strike nobody, start nothing more, and wait until everything has ended."""
    workers.settings |= {"killed_in_claims": 0.0, "frozen_in_claims": 0.0}
    workers.renew()  # a frozen one may hold a lock that the load waits for
    load.stop()
    began = time.monotonic()
    while (stuck := left(database)) and time.monotonic() - began < DRAIN:
        workers.look_for(0.2)
    run.figure(f"{database.kind}: drained in s", round(time.monotonic() - began, 1))
    run.check(not stuck, f"{database.kind}: {stuck} jobs did not end")
    unstopped = workers.stop()
    run.check(not unstopped, f"{database.kind}: {len(unstopped)} workers did not stop")


def check_record(
    run: PartRun, database: Database, workers: Workers, auditor: Auditor, *, calm_until: float
) -> Playback:
    """`calm_until`: how long permits are expected to be handed over quickly."""
    kind = database.kind
    playback = Playback(workers.killed, calm_until)
    turns = _Turns()
    playback.play(read(database), turns.take)
    run.figure(f"{kind}: strikes", dict(workers.strikes))
    run.figure(f"{kind}: starts", dict(playback.starts))
    run.figure(f"{kind}: most running", dict(playback.most))
    run.figure(f"{kind}: changes of limits", playback.changes)
    run.figure(f"{kind}: samples", auditor.samples)
    for found, whose in ((playback.violations, "record"), (auditor.violations, "samples")):
        run.check(not found, f"{kind}: {whose}: {len(found)} violations: {found[:5]}")
    run.check(all(playback.starts.values()), f"{kind}: a queue was not served")
    _check_recoveries(run, kind, playback, workers)
    waits = sorted(playback.handovers["capped"])
    if run.check(bool(waits), f"{kind}: the queue with a cap was never full"):
        run.figure(f"{kind}: handover s", _quantiles(waits))
        run.check(median(waits) < HANDOVER, f"{kind}: a freed permit waits {median(waits):.3f} s")
    rounds = turns.rounds(database)
    if run.check(bool(rounds), f"{kind}: no job of a small tenant"):
        run.figure(f"{kind}: rounds that small tenants wait", _quantiles(rounds))
        run.check(rounds[-1] <= ROUNDS, f"{kind}: small tenants wait {rounds[-1]:.1f} rounds")
    return playback


def _check_recoveries(run: PartRun, kind: str, playback: Playback, workers: Workers) -> None:
    """Permits of killed workers. A process that is frozen may hold a lock meanwhile; and if that
    kept a store away, reapers wait a lease longer."""
    seconds = sorted(
        each
        for killed, each in playback.recoveries
        if workers.calm(killed - RECOVERY, killed + RECOVERY)
    )
    run.check(run.short or bool(seconds), f"{kind}: no killed worker had a permit")
    if not seconds:
        return
    run.figure(f"{kind}: permits of killed workers, s", _quantiles(seconds))
    late = [round(each, 2) for each in seconds if each > RECOVERY]
    run.check(not late, f"{kind}: permits of killed workers took over {RECOVERY} s: {late[-5:]}")


class _Turns:
    """How long the jobs of small tenants wait, in rounds: each worker serves the keys in turn."""

    def __init__(self) -> None:
        self._starts: dict[str, list[float]] = defaultdict(list)
        """Of the fair queue, by worker."""
        self._first: dict[str, float] = {}

    def take(self, note: Note) -> None:
        if note.queue == "fair" and note.what == "start":
            self._starts[note.worker or ""].append(note.at)
            if note.version == 1 and note.key != BIG and note.id is not None:
                self._first[note.id] = note.at

    def rounds(self, database: Database) -> list[float]:
        """For every job of a small tenant, the most starts of one worker before it, in rounds."""
        waited: list[float] = []
        for id, created in database.ask(CREATED[database.kind]):
            if (at := self._first.get(id)) is not None:
                most = max(
                    bisect_left(starts, at) - bisect_left(starts, created)
                    for starts in self._starts.values()
                )
                waited.append(most / (SMALL + 1))
        return sorted(waited)


CREATED = {
    "postgres": "select id::text, extract(epoch from created_at)::float8 from {job}"
    " where queue = 'fair'",
    "sqlite": "select id, created_at / 1e6 from {job} where queue = 'fair'",
}


def _quantiles(values: list[float]) -> dict[str, float]:
    """Of sorted values."""
    return {
        "count": len(values),
        "p50": round(median(values), 3),
        "p99": round(values[int(len(values) * 0.99)], 3),
        "max": round(values[-1], 3),
    }
