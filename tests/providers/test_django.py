"""What is Django's own: times without a zone, and the proxy that is `django.db.connection`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, connections
from django.db.transaction import atomic
from django.test import override_settings

from headway import Headway
from headway.errors import ConfigurationError
from tests.providers.connections import django_connection


def make(url: str) -> tuple[Headway, Any]:
    app = Headway(url, migrate=True)

    @app.job
    def pack(number: int) -> int:
        return number

    return app, pack


@pytest.fixture
def default(sqlite_path: Path) -> Iterator[str]:
    """The default connection leads to an SQLite file."""
    url = f"sqlite:///{sqlite_path}"
    django_connection(url, sqlite_path)
    before = connections["default"]
    connections["default"] = connections["shop"]
    yield url
    connections["default"].close()
    connections["default"] = before
    del connections["shop"]


def test_the_default_connection_by_its_proxy(default: str) -> None:
    app, pack = make(default)
    with app.sync as client:
        with atomic():
            started = client.start(pack.request(1), tx=connection)
        assert client.get(started).state == "pending"
        with pytest.raises(ConfigurationError, match=r"transaction\.atomic\(\)"):
            client.start(pack.request(2), tx=connection)


def test_transactions_that_django_does_not_manage(default: str) -> None:
    app, pack = make(default)
    with app.sync as client:
        connection.set_autocommit(False)
        client.start(pack.request(1), tx=connection)
        connection.rollback()
        kept = client.start(pack.request(2), tx=connection)
        connection.commit()
        connection.set_autocommit(True)
        assert [job.id for job in client.list().jobs] == [kept.id]


@override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo")
def test_times_without_a_zone(postgres_url: str, tmp_path: Path) -> None:
    django_connection(postgres_url, tmp_path)
    app, pack = make(postgres_url)
    with app.sync as client:
        with atomic(using="shop"):
            started = client.start(pack.request(1), tx=connections["shop"])
            inside = client.get(started, tx=connections["shop"])
        connections["shop"].close()
        del connections["shop"]
        assert client.get(started).run_at == inside.run_at
        assert abs(inside.run_at - datetime.now(UTC)) < timedelta(minutes=1)


def test_a_connection_to_another_database_is_refused(
    default: str, postgres_url: str, tmp_path: Path
) -> None:
    app, pack = make(postgres_url)
    with (
        app.sync as client,
        atomic(),
        pytest.raises(ConfigurationError, match="to sqlite, and the jobs are in postgresql"),
    ):
        client.start(pack.request(1), tx=connection)
