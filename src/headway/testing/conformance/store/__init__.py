"""What every store promises, as plain functions that anyone can run against a store of their own.

    for case in cases_for(store.capabilities):
        await case.function(store)      # on an open, migrated, empty store each time

Times are passed in and nothing sleeps. A case may be left out only by a declared capability.
"""

from __future__ import annotations

from headway.ports.store import Capabilities
from headway.testing.conformance.store import (
    audit,
    blockers,
    cancel,
    claim,
    closing,
    dedup,
    delete_ended,
    delete_jobs,
    extend,
    fence,
    filters,
    finish,
    insert,
    needed,
    pause,
    progress,
    prune,
    races,
    reads,
    reap,
    retry,
    running,
    sequences,
    settle_complete,
    settle_failure,
    settle_giving_back,
    survey,
    transactions,
    trigger,
    workers,
)
from headway.testing.conformance.store.case import Case
from headway.testing.conformance.store.needed import racing_deletions
from headway.testing.conformance.store.races import racing_pairs

__all__ = ["CASES", "Case", "cases_for", "racing_deletions", "racing_pairs"]

CASES: list[Case] = [
    *insert.case.found,
    *claim.case.found,
    *extend.case.found,
    *fence.case.found,
    *settle_complete.case.found,
    *settle_failure.case.found,
    *settle_giving_back.case.found,
    *reap.case.found,
    *cancel.case.found,
    *retry.case.found,
    *trigger.case.found,
    *pause.case.found,
    *reads.case.found,
    *filters.case.found,
    *survey.case.found,
    *progress.case.found,
    *audit.case.found,
    *workers.case.found,
    *prune.case.found,
    *delete_jobs.case.found,
    *delete_ended.case.found,
    *finish.case.found,
    *sequences.case.found,
    *blockers.case.found,
    *dedup.case.found,
    *transactions.case.found,
    *running.case.found,
    *races.case.found,
    *needed.case.found,
    *closing.case.found,
]


def cases_for(capabilities: Capabilities) -> list[Case]:
    """The cases that a store with these capabilities has to pass."""
    return [case for case in CASES if case.fits(capabilities)]
