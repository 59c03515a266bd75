"""sqlite3 connections; they block, briefly, and serve async callers as well."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headway.errors import ConfigurationError
from headway.ports.statement import Row, Statement

BEGIN = "begin immediate"
"""A deferred transaction that turns into a write fails at once if another one writes."""

_encoder = msgspec.json.Encoder()
# Parameters are numbered (?1, ?2, ...), and Python counts those as named ones: by position they
# are deprecated in 3.12.
_NAMES = tuple(map(str, range(1, 40)))


class Sqlite3:
    def accepts(self, tx: object) -> bool:
        return isinstance(tx, sqlite3.Connection)

    def execute(self, tx: sqlite3.Connection, statement: Statement) -> Sequence[Row]:
        if must_begin(tx):
            tx.execute(BEGIN)
        return execute(tx, statement)

    def after_commit(self, tx: sqlite3.Connection, callback: Callable[[], None]) -> bool:
        return False


def must_begin(connection: Any) -> bool:
    """Whether no transaction is open yet. Python begins one only before what looks like a write to
    it. Refuses a connection that commits every statement; it may be an aiosqlite one."""
    if connection.in_transaction:
        return False
    if connection.isolation_level is None or getattr(connection, "autocommit", None) is True:
        raise ConfigurationError(
            "tx= is a connection to SQLite without an open transaction; "
            f'execute "{BEGIN}" on it first, or leave tx out'
        )
    return True


def execute(connection: sqlite3.Connection, statement: Statement) -> Sequence[Row]:
    """Run a statement. The items of a batch are its first parameter, as JSON: one statement for
    all of them is twice as fast as one for each, and gives up the GIL once. A batch that returns no
    rows answers with one: how many rows it changed."""
    cursor = connection.cursor()
    cursor.row_factory = None
    cursor.execute(statement.sql, parameters(statement))
    if cursor.description or statement.rows is None:
        return cursor.fetchall()
    return ((cursor.rowcount,),)


def parameters(statement: Statement) -> dict[str, Any]:
    """By the names that Python gives to ?1, ?2, ..."""
    params = map(_parameter, statement.params)
    if statement.rows is None:
        return dict(zip(_NAMES, params, strict=False))
    return dict(zip(_NAMES, (_encode(statement.rows), *params), strict=False))


def _parameter(value: Any) -> Any:
    return _encode(value) if type(value) is list else value


def _encode(value: Any) -> str:
    return _encoder.encode(value).decode()
