"""The planted bugs, and what is expected to find each of them.

A bug is put in where it would be written: into a function of the engine or of a store, or into the
text of a statement. `python -m proof.planted NAME [DSN]` plants one, in a process of its own, and
says in JSON whether and how it was found.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

from proof import checks, engine_bugs, memory_bugs, mongodb_bugs
from proof.conforming import first_failure
from proof.simulation.running import simulate
from proof.simulation.scenario import Scenario

LONGEST = 55.0
FENCE = re.compile(r"^\s+and .*\blease_(token|until)\b.*$", re.MULTILINE)


@dataclass(frozen=True)
class Bug:
    name: str
    plant: Callable[[], None]
    finder: str
    """sim, memory, sqlite, postgres, mongodb (conformance), or the name of a check."""


def bugs() -> list[Bug]:
    return [
        *(Bug(name, plant, "sim") for name, plant in engine_bugs.SEEN_BY_SIMULATION.items()),
        Bug("committer's flush lost on shutdown", engine_bugs.flush_lost_on_shutdown, "stopping"),
        Bug("bound that skips late commits", engine_bugs.bound_without_looking, "late_commit"),
        Bug("dedup without its lock", engine_bugs.keys_unlocked, "postgres"),
        *(Bug(name, plant, "memory") for name, plant in memory_bugs.SEEN_BY_CONFORMANCE.items()),
        *(bug for store in ("sqlite", "postgres") for bug in _fence_bugs(store)),
        *(Bug(name, plant, "mongodb") for name, plant in mongodb_bugs.SEEN_BY_CONFORMANCE.items()),
    ]


def _fence_bugs(store: str) -> list[Bug]:
    """One for every line in a store's statements that compares a token or an expiry."""
    folder = files(f"headway.stores.{store}") / "statements"
    found: list[Bug] = []
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        if not entry.name.endswith(".sql"):
            continue
        for match in FENCE.finditer(entry.read_text()):
            line = match[0]
            name = f"{store}: {entry.name} without `{line.strip()}`"
            plant = engine_bugs.without_line(store, entry.name.removesuffix(".sql"), line)
            found.append(Bug(name, plant, store))
    return found


def find(bug: Bug, dsn: str) -> str | None:
    """What the finder says about it, or None if it does not see it."""
    match bug.finder:
        case "sim":
            deadline = time.monotonic() + LONGEST
            seed = 0
            while time.monotonic() < deadline:
                outcome = simulate(Scenario.from_seed(seed))
                if outcome.invariant is not None:
                    return f"seed {seed}: {outcome.invariant}"
                seed += 1
            return None
        case "memory" | "sqlite" | "postgres" | "mongodb":
            return first_failure(bug.finder, dsn)[1]
        case check:
            return getattr(checks, check)(dsn)


def main() -> None:
    name, dsn = sys.argv[1], sys.argv[2]
    (bug,) = [each for each in bugs() if each.name == name]
    bug.plant()
    began = time.monotonic()
    found = find(bug, dsn)
    seconds = round(time.monotonic() - began, 1)
    print(json.dumps({"found": found, "finder": bug.finder, "seconds": seconds}))


if __name__ == "__main__":
    main()
