"""What every provider promises, as plain functions that anyone can run against one of their own.

    with Bench(subject) as bench:
        for case in cases_for(subject):
            case.function(bench)

A `Subject` says how to open a connection with a transaction and a savepoint on it. Its context
managers may be awaited or not; the cases run in a thread without an event loop either way.
"""

from __future__ import annotations

from headway.testing.conformance.provider.cases import CASES, Case
from headway.testing.conformance.provider.fixture import Bench, Subject

__all__ = ["CASES", "Bench", "Case", "Subject", "cases_for"]


def cases_for(subject: Subject) -> list[Case]:
    """The cases that a provider of these connections has to pass."""
    return [case for case in CASES if case.fits(subject)]
