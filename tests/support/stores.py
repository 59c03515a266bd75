"""Empty stores to try, by kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

KINDS = ("memory", "sqlite", "postgres", "mongodb")


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
