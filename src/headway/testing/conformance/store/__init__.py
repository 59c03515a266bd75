"""The promises of every store, as plain functions to run against a store of your own.

    for case in cases_for(store.capabilities):
        await case.function(store)      # on an open, migrated, empty store each time

Times are passed in and nothing sleeps. Only the declared capabilities of a store exclude cases.
"""

from __future__ import annotations

from headway.ports.store import Capabilities, Store
from headway.testing.conformance.case import Case
from headway.testing.conformance.store import (
    audit,
    blocker_deletion,
    blockers,
    cancel,
    claim,
    close,
    complete_without_lease,
    dedup,
    delete_ended,
    delete_jobs,
    extend,
    fence,
    filters,
    holds,
    insert,
    job_keys,
    key_turns,
    limit_changes,
    limit_races,
    limited_claims,
    operations,
    pause,
    progress,
    prune,
    queue_states,
    races,
    rates,
    reads,
    reap,
    retry,
    schedule_catch_up,
    schedule_changes,
    schedule_declarations,
    schedule_firing,
    schedule_overlap,
    schedule_transactions,
    scheduled_jobs,
    schedules,
    sequences,
    settle_complete,
    settle_failure,
    settle_release,
    statistics,
    transactions,
    trigger,
    workers,
)
from headway.testing.conformance.store.blocker_deletion import racing_deletions
from headway.testing.conformance.store.races import racing_pairs

__all__ = ["CASES", "StoreCase", "cases_for", "racing_deletions", "racing_pairs"]

StoreCase = Case[Store, [Capabilities]]

CASES: list[StoreCase] = [
    *insert.case.found,
    *claim.case.found,
    *extend.case.found,
    *fence.case.found,
    *settle_complete.case.found,
    *settle_failure.case.found,
    *settle_release.case.found,
    *reap.case.found,
    *cancel.case.found,
    *retry.case.found,
    *trigger.case.found,
    *pause.case.found,
    *reads.case.found,
    *filters.case.found,
    *statistics.case.found,
    *progress.case.found,
    *audit.case.found,
    *workers.case.found,
    *schedules.case.found,
    *scheduled_jobs.case.found,
    *schedule_transactions.case.found,
    *schedule_firing.case.found,
    *schedule_overlap.case.found,
    *schedule_catch_up.case.found,
    *schedule_declarations.case.found,
    *schedule_changes.case.found,
    *queue_states.case.found,
    *job_keys.case.found,
    *limited_claims.case.found,
    *rates.case.found,
    *holds.case.found,
    *key_turns.case.found,
    *limit_changes.case.found,
    *limit_races.case.found,
    *prune.case.found,
    *delete_jobs.case.found,
    *delete_ended.case.found,
    *complete_without_lease.case.found,
    *sequences.case.found,
    *blockers.case.found,
    *dedup.case.found,
    *transactions.case.found,
    *operations.case.found,
    *races.case.found,
    *blocker_deletion.case.found,
    *close.case.found,
]


def cases_for(capabilities: Capabilities) -> list[StoreCase]:
    """The cases that a store with these capabilities has to pass."""
    return [case for case in CASES if case.fits(capabilities)]
