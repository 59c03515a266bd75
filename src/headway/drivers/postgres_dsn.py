"""DSNs of PostgreSQL, the arguments of connections, and poolers between client and server."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo

from headway.domain.validation import check_parameters
from headway.errors import ConfigurationError, StoreRefused, StoreUnreachable

_STRANGE = re.compile(r'invalid (?:URI query parameter:|connection option) "([^"]+)"')
WHO_ANSWERS = "select pg_backend_pid()"

# libpq gives the reason of a refusal as text only; if the text is not English, the error repeats it
# without advice.
_ADVICE = (
    ("password", "check the user and the password in the DSN"),
    ("authentication failed", "check the user in the DSN, and the server's pg_hba.conf"),
    ("pg_hba.conf", "allow this host, user and database in the server's pg_hba.conf"),
    ("role", "create the role with the right to log in, or name another user in the DSN"),
    ("permission denied", "grant the user the right to connect, or name another one in the DSN"),
    ("database", "create the database, or name another one in the DSN"),
    ("ssl", "check sslmode in the DSN, and whether the server offers TLS"),
    ("certificate", "check sslmode, sslrootcert and the name of the host in the DSN"),
)
_CLIENTS_OWN = ("no password supplied", "does not support ssl", "ssl error", "certificate")
"""Refusals by libpq itself."""
_NOT_NOW = ("starting up", "shutting down", "recovery", "too many", "remaining connection slots")
"""Refusals by a server that will soon accept connections."""


def describe(dsn: str) -> str:
    """Database and hosts of a DSN, without its secrets."""
    parts = _parts(dsn)
    hosts = [host or "localhost" for host in str(parts.get("host") or "").split(",")]
    ports = [port or "5432" for port in str(parts.get("port") or "").split(",")]
    if len(ports) < len(hosts):  # one for all
        ports *= len(hosts)
    places = ", ".join(f"{host}:{port}" for host, port in zip(hosts, ports, strict=False))
    database = parts.get("dbname") or parts.get("user") or "postgres"
    return f"PostgreSQL database {database!r} at {places}"


def unreachable(where: str, error: psycopg.Error) -> StoreUnreachable:
    """The error for a failed connection: StoreRefused if the server refused it."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    reason = line.rpartition(" failed: ")[2]
    said = reason.removeprefix("FATAL:").strip()
    lower = said.lower()
    answered = reason != said or any(words in lower for words in _CLIENTS_OWN)
    if answered and not any(words in lower for words in _NOT_NOW):
        for word, advice in _ADVICE:
            if word in lower:
                return StoreRefused(where, said, advice)
    return StoreUnreachable(where, line)


def connect_arguments(dsn: str) -> dict[str, Any]:
    """Arguments of a connection besides its DSN, which takes precedence. Keepalives notice a server
    that has gone silently; of several hosts the one that takes writes is connected to."""
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
    """Whether a pooler is between client and server: then another server process than the
    connection's own has answered WHO_ANSWERS, and may answer the next transaction."""
    return answer is None or answer[0] != connection.info.backend_pid


def _parts(dsn: str) -> dict[str, Any]:
    try:
        return conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        if strange := _STRANGE.match(str(error)):
            known = [option.keyword.decode() for option in Conninfo.get_defaults()]
            check_parameters("a PostgreSQL DSN", f"{strange[1]}=", known)
        raise ConfigurationError(
            "the PostgreSQL DSN cannot be read; write postgresql://user:password@host:port/database"
            " with special characters in user and password percent-encoded"
        ) from None
