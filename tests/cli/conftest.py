"""Stores for the commands to look at."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def dsn(request: pytest.FixtureRequest) -> str:
    """A store that other processes can reach, without a schema."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    path: Path = request.getfixturevalue("sqlite_path")
    return f"sqlite:///{path}"
