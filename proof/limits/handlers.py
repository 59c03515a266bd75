"""What handlers saw of one another: how many of a queue, and of a key, ran at the same time."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

from proof.limits.workers import Workers
from proof.tools.databases import Database
from proof.tools.invariants import Entry, read_logs

Scope = tuple[str, str | None]
"""A queue, or a queue and a key."""


def most_at_once(logs: Path, database: Database, workers: Workers) -> Counter[Scope]:
    """By the handlers' own logs. A handler ends with its process, and one whose process is frozen
    does nothing from then on."""
    places: dict[str, Scope] = {
        id: (queue, key)
        for id, queue, key in database.ask("select cast(id as text), queue, key from {job}")
    }
    changes: dict[Scope, list[tuple[float, int]]] = defaultdict(list)
    for began, ended, job in _intervals(read_logs(logs), workers):
        queue, key = places[job]
        for scope in {(queue, None), (queue, key)}:
            changes[scope] += [(began, 1), (ended, -1)]
    most: Counter[Scope] = Counter()
    for scope, steps in changes.items():
        running = 0
        for _, step in sorted(steps):  # ends first
            running += step
            most[scope] = max(most[scope], running)
    return most


def _intervals(entries: list[Entry], workers: Workers) -> list[tuple[float, float, str]]:
    begun: dict[tuple[str, int], Entry] = {}
    ended: dict[tuple[str, int], float] = {}
    for entry in entries:
        if entry.what == "start":
            begun[entry.job, entry.version] = entry
        else:
            ended[entry.job, entry.version] = entry.at
    frozen: dict[str, list[float]] = defaultdict(list)
    for freeze in workers.freezes:
        frozen[freeze.worker].append(freeze.began)
    found: list[tuple[float, float, str]] = []
    for (job, version), start in begun.items():
        name = workers.names[start.pid]
        stops = [at for at in frozen[name] if at >= start.at]
        if name in workers.killed:
            stops.append(workers.killed[name])
        if (job, version) in ended:
            stops.append(ended[job, version])
        # Without any of these it was interrupted: its worker stopped, or had lost it.
        found.append((start.at, min(stops, default=start.at), job))
    return found
