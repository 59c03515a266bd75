"""Reaching PostgreSQL: what its DSN says, what we add to it, and whether a pooler is in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.conninfo import conninfo_to_dict

from headway.domain.errors import ConfigurationError

WHO_ANSWERS = "select pg_backend_pid()"


def describe(dsn: str) -> str:
    """Where a DSN leads, without its secrets."""
    parts = _parts(dsn)
    hosts = [host or "localhost" for host in str(parts.get("host") or "").split(",")]
    ports = [port or "5432" for port in str(parts.get("port") or "").split(",")]
    if len(ports) < len(hosts):  # one for all
        ports *= len(hosts)
    places = ", ".join(f"{host}:{port}" for host, port in zip(hosts, ports, strict=False))
    database = parts.get("dbname") or parts.get("user") or "postgres"
    return f"PostgreSQL database {database!r} at {places}"


def connect_arguments(dsn: str) -> dict[str, Any]:
    """What a connection is made with besides its DSN, which has the last word. A server that is
    gone without a word is noticed; of several the one that takes writes is meant."""
    known = _parts(dsn)
    ours: dict[str, Any] = {
        "application_name": "headway",
        "connect_timeout": 5,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 15_000,
    }
    if "," in str(known.get("host") or known.get("hostaddr") or ""):
        ours["target_session_attrs"] = "read-write"
    return {name: value for name, value in ours.items() if name not in known}


def is_pooled(
    connection: AsyncConnection[Any] | Connection[Any], answer: Sequence[Any] | None
) -> bool:
    """Whether a pooler is in between: then the process that answered WHO_ANSWERS is not the one
    that the connection was promised, and the next transaction may be another's to answer."""
    return answer is None or answer[0] != connection.info.backend_pid


def _parts(dsn: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        raise ConfigurationError(
            "the PostgreSQL DSN cannot be read; write postgresql://user:password@host:port/database"
            " with special characters in user and password percent-encoded"
        ) from None
