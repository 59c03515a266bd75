"""Every notifier keeps every promise."""

from __future__ import annotations

from collections import Counter

import pytest

from headway.testing.conformance.notifier import CASES, NotifierCase, cases_for
from tests.notifiers.conftest import COUNTING, KINDS, Kind, marked

PAIRS = [
    marked(name, case, id=f"{name}-{case.name}")
    for name, reach in KINDS.items()
    for case in cases_for(reach, counts=name in COUNTING)
]


@pytest.mark.parametrize(("kind", "case"), PAIRS, indirect=["kind"])
async def test_notifier(kind: Kind, case: NotifierCase) -> None:
    await case.function(kind.make)


def test_names_are_unique() -> None:
    assert [name for name, count in Counter(case.name for case in CASES).items() if count > 1] == []
