"""The database of Django's settings; read at each use, because tests change it."""

from __future__ import annotations

from typing import Any

from django.db import connections

from headway.errors import ConfigurationError


def vendor(using: str) -> str:
    """`postgresql` or `sqlite`."""
    found = connections[using].vendor
    if found not in ("postgresql", "sqlite"):
        raise ConfigurationError(
            f"Django's database {using!r} is {found}, and Headway keeps jobs in PostgreSQL and "
            "SQLite; name another in settings.HEADWAY['USING']"
        )
    return found


def sqlite_path(using: str) -> str:
    return checked_path(str(_settings(using)["NAME"]), using)


def checked_path(name: str, using: str) -> str:
    if ":memory:" in name or name.startswith("file:"):
        raise ConfigurationError(
            f"Django's database {using!r} is in memory, where only its own connection sees it; "
            "give it a file (for tests: DATABASES[...]['TEST']['NAME'])"
        )
    return name


def postgres_dsn(using: str) -> str:
    """The settings that libpq knows, as a DSN."""
    from psycopg.conninfo import make_conninfo  # noqa: PLC0415 - only where it is PostgreSQL
    from psycopg.pq import Conninfo  # noqa: PLC0415 - the same

    settings = _settings(using)
    understood = {option.keyword.decode() for option in Conninfo.get_defaults()}
    parts = {
        name: value
        for name, value in {
            "dbname": settings["NAME"],
            "user": settings["USER"],
            "password": settings["PASSWORD"],
            "host": settings["HOST"],
            "port": settings["PORT"],
            **settings["OPTIONS"],
        }.items()
        if name in understood and value not in ("", None)
    }
    return make_conninfo(**parts)


def _settings(using: str) -> dict[str, Any]:
    found: dict[str, Any] = connections[using].settings_dict
    return found
