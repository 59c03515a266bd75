"""Empty stores to try, by kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from headway.ports.store import Store

S = TypeVar("S", bound=Store)

KINDS = ("memory", "sqlite", "postgres", "mongodb")


@asynccontextmanager
async def opened(store: S) -> AsyncIterator[S]:
    """Migrated and open."""
    await store.migrate()
    await store.open()
    yield store
    await store.close()


def store_urls(*kinds: str) -> Callable[..., Any]:
    """A fixture: the URL of an empty store, without a schema, for each of these kinds."""

    @pytest.fixture(params=kinds)
    def store_url(request: pytest.FixtureRequest, sqlite_path: Path) -> str:
        match request.param:
            case "memory":
                return "memory://"
            case "sqlite":
                return f"sqlite:///{sqlite_path}"
            case "postgres":
                return request.getfixturevalue("postgres_url")
            case _:
                return request.getfixturevalue("mongo_url")

    return store_url
