"""Balancing the books: ledger, database and the workers' diaries against one another."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from proof.tools.databases import MUST_BE_ZERO, Place, summary
from proof.tools.producer import Ledger
from proof.tools.report import Trial


@dataclass(frozen=True)
class Entry:
    what: str
    job: str
    token: str
    version: int
    at: float
    pid: int


def read_diaries(folder: Path) -> list[Entry]:
    entries: list[Entry] = []
    for path in folder.iterdir():
        for line in path.read_text().splitlines():
            parts = line.split(" ")
            if len(parts) == 6:  # a kill may cut a line short
                what, job, token, version, at, pid = parts
                entries.append(Entry(what, job, token, int(version), float(at), int(pid)))
    return sorted(entries, key=lambda entry: entry.at)


def check(
    trial: Trial, name: str, place: Place, ledger: Ledger, entries: list[Entry], length: int
) -> dict[str, int]:
    """What must hold whatever happened. `length` is how many jobs a sequence has."""
    found = summary(place)
    trial.figures[name] = found
    for what in MUST_BE_ZERO:
        trial.check(found[what] == 0, f"{name}: {what}: {found[what]}")
    trial.check(found["left"] == 0, f"{name}: {found['left']} jobs have not ended")
    rows = place.ask(
        "select cast(sequence_id as text), count(*), min(state), max(state) from {job}"
        " group by sequence_id"
    )
    sequences = {row[0]: row[1:] for row in rows}
    lost = ledger.ids - sequences.keys()
    trial.check(not lost, f"{name}: {len(lost)} acknowledged sequences are lost: {list(lost)[:3]}")
    whole = (length, "completed", "completed")
    broken = [id for id in ledger.ids & sequences.keys() if sequences[id] != whole]
    trial.check(not broken, f"{name}: {len(broken)} sequences are not whole: {broken[:3]}")
    twice = _started_twice(entries)
    trial.check(not twice, f"{name}: started twice under one lease: {twice[:3]}")
    return found


def _started_twice(entries: list[Entry]) -> list[tuple[str, int]]:
    starts: dict[tuple[str, int], int] = defaultdict(int)
    for entry in entries:
        if entry.what == "start":
            starts[entry.job, entry.version] += 1
    return [key for key, count in starts.items() if count > 1]


@dataclass(frozen=True)
class Strike:
    """What befell a process, from when to when; a kill has no end."""

    pid: int
    at: float
    until: float | None = None


def recoveries(place: Place, entries: list[Entry], strikes: list[Strike]) -> dict[str, list[float]]:
    """Seconds from the moment a process was killed, or frozen, until each job that it ran was
    claimed again, by what had happened to it. Not counted is the time for which some other process
    was frozen meanwhile: it may have held a lock, and nobody can take that away from it."""
    first: dict[int, Strike] = {}
    for strike in sorted(strikes, key=lambda each: each.at, reverse=True):
        first[strike.pid] = strike
    claims: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for job, version, at in place.ask("select id, version, at from claimed order by version"):
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
                found[kind].append(at - known.at - _frozen(strikes, known, at))
                break
    return {kind: sorted(times) for kind, times in found.items()}


def _frozen(strikes: list[Strike], known: Strike, until: float) -> float:
    """For how long, between a strike and `until`, some other process was frozen."""
    seconds = 0.0
    reached = known.at
    for strike in sorted(strikes, key=lambda each: each.at):
        if strike.until is None or strike is known:
            continue
        begin, end = max(strike.at, reached), min(strike.until, until)
        if end > begin:
            seconds += end - begin
            reached = end
    return seconds
