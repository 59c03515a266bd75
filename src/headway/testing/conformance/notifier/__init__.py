"""What every notifier promises, as plain functions that anyone can run against one of their own.

    for case in cases_for(make().reach, counts=True):
        await case.function(make)       # where nobody else publishes or listens meanwhile

`make` gives a new notifier, not yet opened; those that it gives hear one another. A notifier that
lives in one process gives the same one again. A case may be left out only by what is declared:
whom the notifier reaches, and whether it keeps budgets between processes.
"""

from __future__ import annotations

from headway.ports.notifier import Reach
from headway.testing.conformance.case import Case
from headway.testing.conformance.notifier import budgets, close, interest, subscribe
from headway.testing.conformance.notifier.builders import Make

__all__ = ["CASES", "Make", "NotifierCase", "cases_for"]

NotifierCase = Case[Make, [Reach, bool]]

CASES: list[NotifierCase] = [
    *subscribe.case.found,
    *interest.case.found,
    *budgets.case.found,
    *close.case.found,
]


def cases_for(reach: Reach, *, counts: bool = False) -> list[NotifierCase]:
    """The cases that a notifier of this reach, which keeps budgets between processes or not, has
    to pass."""
    return [case for case in CASES if case.fits(reach, counts)]
