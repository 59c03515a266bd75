"""An office on each store: an app, what it tells, and workers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.observers.office import Office


@pytest.fixture(params=["memory", "sqlite", "postgres", "mongodb"])
async def office(request: pytest.FixtureRequest, sqlite_path: Path) -> AsyncIterator[Office]:
    match request.param:
        case "memory":
            url = "memory://"
        case "sqlite":
            url = f"sqlite:///{sqlite_path}"
        case "postgres":
            url = request.getfixturevalue("postgres_url")
        case _:
            url = request.getfixturevalue("mongo_url")
    office = Office(url)
    async with office.app:
        yield office
