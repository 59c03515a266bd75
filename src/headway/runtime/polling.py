"""How much polling notifications can save."""

from __future__ import annotations

from headway.ports.notifier import Notifier, Reach
from headway.ports.store import Store

WELL_INFORMED = 3.0
"""How many times less often an idle worker looks if every commit is announced to it."""
INFORMED = 1.5
"""The same if callers commit in transactions of their own without a word."""


def polling_saved(store: Store, notifier: Notifier | None) -> float:
    """How many times less often one may look while notifications arrive; 1 if there are too few."""
    if notifier is None:
        return 1.0
    match notifier.reach:
        case Reach.NOBODY:
            return 1.0
        case Reach.PROCESS:
            return 1.0 if store.capabilities.across_processes else WELL_INFORMED
        case Reach.EVERYONE:
            return INFORMED
        case Reach.EVERY_COMMIT:
            return WELL_INFORMED
