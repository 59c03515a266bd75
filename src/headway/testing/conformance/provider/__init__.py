"""The promises of every provider, as plain functions to run against a provider of your own.

    with ProviderFixture(subject) as fixture:
        for case in cases_for(subject):
            case.function(fixture)

A `Subject` says how to open a connection with a transaction and a savepoint on it. Its context
managers may be awaited or not; the cases run in a thread without an event loop either way.
"""

from __future__ import annotations

from headway.testing.conformance.case import Case
from headway.testing.conformance.provider.cases import case
from headway.testing.conformance.provider.fixture import ProviderFixture, Subject

__all__ = ["CASES", "ProviderCase", "ProviderFixture", "Subject", "cases_for"]

ProviderCase = Case[ProviderFixture, [Subject]]

CASES: list[ProviderCase] = case.found


def cases_for(subject: Subject) -> list[ProviderCase]:
    """The cases that a provider of these connections has to pass."""
    return [case for case in CASES if case.fits(subject)]
