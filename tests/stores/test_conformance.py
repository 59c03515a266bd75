"""Every store keeps every promise."""

from __future__ import annotations

from collections import Counter

import pytest

from headway.ports.store import Store
from headway.stores.mongodb import MongoStore
from headway.testing.conformance.store import (
    CASES,
    StoreCase,
    racing_deletions,
    racing_pairs,
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_store(store: Store, case: StoreCase) -> None:
    # No store of ours lacks a capability that a case asks for, so none is left out.
    assert case.fits(store.capabilities)
    await case.function(store)


@pytest.mark.long
@pytest.mark.slow
async def test_many_racing_pairs(store: Store) -> None:
    # On MongoDB each pair is two transactions of several round trips.
    await racing_pairs(store, 500 if isinstance(store, MongoStore) else 2_000)


@pytest.mark.long
@pytest.mark.slow
async def test_many_racing_deletions(store: Store) -> None:
    await racing_deletions(store, 2_000)


def test_the_suite_is_large_and_its_names_are_unique() -> None:
    assert len(CASES) >= 200
    assert [name for name, count in Counter(case.name for case in CASES).items() if count > 1] == []
