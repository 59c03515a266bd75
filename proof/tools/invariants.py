"""Invariants: the producer's log, the database and the workers' logs must agree."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from proof.tools.databases import MUST_BE_ZERO, Database, summary
from proof.tools.part_run import PartRun
from proof.tools.producer import StartLog


@dataclass(frozen=True)
class Entry:
    what: str
    job: str
    token: str
    version: int
    at: float
    pid: int


def read_logs(folder: Path) -> list[Entry]:
    entries: list[Entry] = []
    for path in folder.iterdir():
        for line in path.read_text().splitlines():
            parts = line.split(" ")
            if len(parts) == 6:  # a kill may cut a line short
                what, job, token, version, at, pid = parts
                entries.append(Entry(what, job, token, int(version), float(at), int(pid)))
    return sorted(entries, key=lambda entry: entry.at)


def check(
    run: PartRun,
    name: str,
    database: Database,
    start_log: StartLog,
    entries: list[Entry],
    length: int,
) -> dict[str, int]:
    """Check what must hold whatever happened. `length`: jobs of a sequence."""
    found = summary(database)
    run.figures[name] = found
    for what in MUST_BE_ZERO:
        run.check(found[what] == 0, f"{name}: {what}: {found[what]}")
    run.check(found["left"] == 0, f"{name}: {found['left']} jobs have not ended")
    rows = database.ask(
        "select cast(sequence_id as text), count(*), min(state), max(state) from {job}"
        " group by sequence_id"
    )
    sequences = {row[0]: row[1:] for row in rows}
    lost = start_log.ids - sequences.keys()
    run.check(not lost, f"{name}: {len(lost)} acknowledged sequences are lost: {list(lost)[:3]}")
    whole = (length, "completed", "completed")
    broken = [id for id in start_log.ids & sequences.keys() if sequences[id] != whole]
    run.check(not broken, f"{name}: {len(broken)} sequences are not whole: {broken[:3]}")
    twice = _started_twice(entries)
    run.check(not twice, f"{name}: started twice under one lease: {twice[:3]}")
    return found


def _started_twice(entries: list[Entry]) -> list[tuple[str, int]]:
    starts: dict[tuple[str, int], int] = defaultdict(int)
    for entry in entries:
        if entry.what == "start":
            starts[entry.job, entry.version] += 1
    return [key for key, count in starts.items() if count > 1]


@dataclass(frozen=True)
class Interruption:
    """A process was killed, or frozen until `until`."""

    pid: int
    at: float
    until: float | None = None


def recoveries(
    database: Database, entries: list[Entry], interruptions: list[Interruption]
) -> dict[str, list[float]]:
    """Seconds from a kill or freeze of a process until each of its jobs was claimed again. Time
    during which another process was frozen is not counted: that process may have held a lock."""
    first: dict[int, Interruption] = {}
    for interruption in sorted(interruptions, key=lambda each: each.at, reverse=True):
        first[interruption.pid] = interruption
    claims: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for job, version, at in database.ask("select id, version, at from claimed order by version"):
        claims[job].append((version, at))
    ended = {(entry.job, entry.version) for entry in entries if entry.what == "end"}
    found: dict[str, list[float]] = {"killed": [], "frozen": []}
    for entry in entries:
        known = first.get(entry.pid)
        if known is None or entry.what != "start" or entry.at > known.at:
            continue
        if (entry.job, entry.version) in ended:
            continue
        for version, at in claims[entry.job]:
            if version > entry.version:
                kind = "killed" if known.until is None else "frozen"
                found[kind].append(at - known.at - _frozen(interruptions, known, at))
                break
    return {kind: sorted(times) for kind, times in found.items()}


def _frozen(interruptions: list[Interruption], known: Interruption, until: float) -> float:
    """Seconds between an interruption and `until` during which another process was frozen."""
    seconds = 0.0
    reached = known.at
    for interruption in sorted(interruptions, key=lambda each: each.at):
        if interruption.until is None or interruption is known:
            continue
        begin, end = max(interruption.at, reached), min(interruption.until, until)
        if end > begin:
            seconds += end - begin
            reached = end
    return seconds
