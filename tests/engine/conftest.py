"""A workbench for each test of the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.engine.bench import Bench


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.store.open()
    yield bench
    await bench.store.close()
