"""An app on each kind of store, for tests of what operators see and do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.shop import Shop


@pytest.fixture(params=["memory", "sqlite", "postgres", "mongodb"])
async def shop(request: pytest.FixtureRequest, sqlite_path: Path) -> AsyncIterator[Shop]:
    match request.param:
        case "memory":
            url = "memory://"
        case "sqlite":
            url = f"sqlite:///{sqlite_path}"
        case "mongodb":
            url = request.getfixturevalue("mongo_url")
        case _:
            url = request.getfixturevalue("postgres_url")
    shop = Shop(url, migrate=True)
    async with shop.app:
        yield shop
