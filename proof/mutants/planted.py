"""The planted bugs, and what is expected to find each of them.

A bug is put in where it would be written: into a function of the core or of a store, or into the
text of a statement. `python -m proof.mutants.planted NAME [DSN]` plants one, in a process of its
own, and says in JSON whether and how it was found.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, count

from proof.mutants import (
    checks,
    core_bugs,
    limit_bugs,
    limit_checks,
    memory_bugs,
    mongodb_bugs,
    schedule_bugs,
    sql_bugs,
)
from proof.simulation.limits import simulate_limits
from proof.simulation.run import simulate
from proof.simulation.scenario import Scenario
from proof.simulation.schedules import simulate_day
from proof.tools.conformance_run import first_failure

LONGEST = 55.0
DAY = 1.0
"""Hours of a simulated day of schedules: enough for a bug to show."""
GROUPS = {
    "limits: queue state locked": "limit_races",
    "limits: running jobs counted": "limit_races",
    "limits: need permits": "limit_races",
    "limits: full keys with `if False": "holds",
    "limits: permits with `False": "holds",
    "limits: permits with `min": "rates",
    "limits: hold": "holds",
    "limits: override": "limit_changes",
    "limits: effective": "limit_changes",
    "limits: declare": "limit_changes",
    "limits: interval": "rates",
    "limits: allowed": "rates",
    "limits: keep": "rates",
    "limits: spend": "rates",
    "limits: claim in turn": "key_turns",
    "limits:": "limited_claims",
    "schedules: declare": "schedule_changes",
    "schedules: change": "schedule_changes",
    "schedules: put": "schedule_changes",
    "schedules: pause": "schedule_changes",
    "schedules: resume": "schedule_changes",
    "schedules: delete": "schedule_changes",
    "schedules: fireable": "schedules",
    "schedules: due schedules": "schedules",
    "schedules: seen record": "schedules",
    "schedules: lock record": "schedules",
    "schedules: advance schedules": "schedules",
    "schedules:": "schedule_firing",
    "schedules.sql": "schedules",
    "schedules locked.sql": "schedules",
    "next schedule.sql": "schedules",
    "save worker.sql": "schedules",
    "insert scheduled.sql": "schedules",
    "progress": "progress",
    "extend": "extend",
    "expired.sql": "extend",
    "free": "retry",
    "unblock": "retry",
    "retry": "retry",
    "cancelling": "cancel",
    "cancel.sql": "cancel",
    "trigger": "trigger",
    "without `for update": "blocker_deletion",
    "without a look": "blocker_deletion",
    "deletable": "delete_ended",
    "delete ended": "delete_ended",
    "delete sequences": "delete_ended",
    "prun": "prune",
    "dedup": "dedup",
    "repeat claim": "claim",
    "taken before": "claim",
    "claiming": "operations",
    "claim.sql": "claim",
    "lost at most": "claim",
    "losses <=": "claim",
    "outcome": "reap",
    "charge": "reap",
    "losses": "reap",
}
"""The cases to begin with, by a word in a bug's name: all are tried, but these find it sooner."""
SEEDS = {"fence dropped from fail": (100_136,)}
"""The same for histories: few have a stale worker whose job has just failed for good."""


@dataclass(frozen=True)
class Bug:
    name: str
    plant: Callable[[], None]
    finder: str
    """sim, day, limits, memory, sqlite, postgres, mongodb (conformance), or the name of a check."""


def bugs() -> list[Bug]:
    return [
        *(Bug(name, plant, "sim") for name, plant in core_bugs.SEEN_BY_SIMULATION.items()),
        Bug("committer's flush lost on shutdown", core_bugs.flush_lost_on_shutdown, "stopping"),
        *(Bug(name, plant, "absence") for name, plant in core_bugs.SEEN_BY_ABSENCE.items()),
        Bug("suspects claimed at any time", core_bugs.suspects_at_any_time, "suspects"),
        Bug("bound that skips late commits", core_bugs.bound_without_looking, "late_commit"),
        Bug("claim repeated by another token", core_bugs.claims_forgotten, "lost_claim"),
        Bug("busy store taken for a bad job", core_bugs.trouble_is_the_jobs_fault, "busy_store"),
        Bug("first of several ids acted on", core_bugs.first_of_several_ids, "ambiguous_id"),
        Bug("dedup without its lock", core_bugs.keys_unlocked, "postgres"),
        *(Bug(name, plant, "memory") for name, plant in memory_bugs.SEEN_BY_CONFORMANCE.items()),
        *(Bug(name, plant, "memory") for name, plant in schedule_bugs.SEEN_BY_CONFORMANCE.items()),
        *(Bug(name, plant, "memory") for name, plant in limit_bugs.SEEN_BY_CONFORMANCE.items()),
        *(Bug(name, plant, "limits") for name, plant in limit_bugs.SEEN_BY_SIMULATION.items()),
        *(Bug(name, plant, check) for name, (plant, check) in limit_bugs.SEEN_BY_CHECKS.items()),
        *(
            Bug(name, plant, store)
            for store, planted in limit_bugs.SEEN_BY_SQL.items()
            for name, plant in planted.items()
        ),
        *(Bug(name, plant, "postgres") for name, plant in schedule_bugs.SEEN_BY_SQL.items()),
        *(Bug(name, plant, "day") for name, plant in schedule_bugs.SEEN_BY_DAY.items()),
        *(
            Bug(name, plant, store)
            for store in ("sqlite", "postgres")
            for name, plant in sql_bugs.seen_by_conformance(store).items()
        ),
        *(Bug(name, plant, "mongodb") for name, plant in mongodb_bugs.SEEN_BY_CONFORMANCE.items()),
    ]


def find(bug: Bug, dsn: str) -> str | None:
    """What the finder says about it, or None if it does not see it."""
    match bug.finder:
        case "sim":
            deadline = time.monotonic() + LONGEST
            for seed in chain(SEEDS.get(bug.name, ()), count()):
                outcome = simulate(Scenario.from_seed(seed))
                if outcome.invariant is not None:
                    return f"seed {seed}: {outcome.invariant}"
                if time.monotonic() > deadline:
                    break
            return None
        case "limits":
            deadline = time.monotonic() + LONGEST
            for seed in count():
                history = simulate_limits(seed)
                if history.invariant is not None:
                    return f"seed {seed}: {history.detail}"
                if time.monotonic() > deadline:
                    break
            return None
        case "day":
            days = (simulate_day(seed, DAY) for seed in range(10))
            return next((f"seed {day.seed}: {day.detail}" for day in days if day.invariant), None)
        case "memory" | "sqlite" | "postgres" | "mongodb":
            return first_failure(bug.finder, dsn, group=_group(bug))[1]
        case "freed_permit" | "left_permit" | "claimers":
            return getattr(limit_checks, bug.finder)(dsn)
        case check:
            return getattr(checks, check)(dsn)


def _group(bug: Bug) -> str:
    return next(
        (group for word, group in GROUPS.items() if word in bug.name.replace("_", " ")), "fence"
    )


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
