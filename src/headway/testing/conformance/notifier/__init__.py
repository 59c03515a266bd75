"""The promises of every notifier, as plain functions to run against a notifier of your own.

    for case in cases_for(make().reach, counts=True):
        await case.function(make)       # while nothing else publishes or listens

`make` returns a new notifier that is not open; its notifiers reach one another. For a notifier
within one process it returns the same one again. Only the declared properties of a notifier exclude
cases: its reach, and whether it keeps budgets between processes.
"""

from __future__ import annotations

from headway.ports.notifier import Reach
from headway.testing.conformance.case import Case
from headway.testing.conformance.notifier import budgets, close, interest, subscribe
from headway.testing.conformance.notifier.kit import Make

__all__ = ["CASES", "Make", "NotifierCase", "cases_for"]

NotifierCase = Case[Make, [Reach, bool]]

CASES: list[NotifierCase] = [
    *subscribe.case.found,
    *interest.case.found,
    *budgets.case.found,
    *close.case.found,
]


def cases_for(reach: Reach, *, counts: bool = False) -> list[NotifierCase]:
    """The cases for a notifier with this reach; `counts`: it keeps budgets between processes."""
    return [case for case in CASES if case.fits(reach, counts)]
