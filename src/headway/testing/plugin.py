"""The pytest plugin: an app on a store of the test's own. pytest loads it wherever Headway is
installed, so it imports the rest of Headway only when a test uses a fixture.

`headway_app`   the app; override it in conftest.py. By default a new one
`headway`       the app on a memory store, or on SQLite, with a clock, `drain` and asserts

    @pytest.mark.headway(store="sqlite", inline=True)
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headway.app import Headway
    from headway.testing.app_under_test import AppUnderTest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        'headway(store="memory", inline=False): the store of the `headway` fixture, memory or '
        "sqlite, and whether starting a job runs it",
    )


@pytest.fixture
def headway_app() -> Headway:
    """The app that the `headway` fixture is for; override it to return yours."""
    from headway.app import Headway  # noqa: PLC0415 - pytest loads this always

    return Headway("memory://")


@pytest.fixture
def headway(
    request: pytest.FixtureRequest, headway_app: Headway, tmp_path: Path
) -> Generator[AppUnderTest]:
    """The app on a store of this test's own, with no worker running: see `AppUnderTest`."""
    from headway.testing.app_under_test import AppUnderTest  # noqa: PLC0415 - the same

    marker = request.node.get_closest_marker("headway")
    options = {} if marker is None else dict(marker.kwargs)
    store, inline = options.pop("store", "memory"), options.pop("inline", False)
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/headway.db"}
    if options or (marker is not None and marker.args) or store not in urls:
        raise pytest.UsageError(
            'the marker is headway(store="memory" or "sqlite", inline=True or False)'
        )
    with AppUnderTest(headway_app, urls[store]) as app, app.inline() if inline else nullcontext():
        yield app
