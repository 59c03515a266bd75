"""How much less often an idle worker or waiter polls while notifications arrive."""

from __future__ import annotations

from headway.ports.notifier import Notifier, Reach
from headway.ports.store import Store

WELL_INFORMED = 3.0
"""Factor between two polls if the notifier announces every commit."""
INFORMED = 1.5
"""The same if commits of callers' own transactions are not announced."""


def polling_saved(store: Store, notifier: Notifier | None) -> float:
    """Factor by which pauses between polls grow while notifications arrive; 1 if too few do."""
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
