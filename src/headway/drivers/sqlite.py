"""Statements on sqlite3 connections: their parameters, and the transaction that they need."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from headway.errors import ConfigurationError
from headway.ports.statement import Row, Statement

BEGIN = "begin immediate"
"""Takes the write lock at once: a deferred transaction that turns into a write fails if another
transaction writes."""

_encoder = msgspec.json.Encoder()
# Python takes the numbered parameters of the statements (?1, ?2, ...) for named ones: passing them
# by position is deprecated since 3.12.
_NAMES = tuple(map(str, range(1, 40)))


def execute(connection: sqlite3.Connection, statement: Statement) -> Sequence[Row]:
    """Run a statement. A batch without rows answers with one: the number of rows it changed.

    The items of a batch are its first parameter, as JSON: one statement for all of them is twice
    as fast as one for each, and releases the GIL once."""
    cursor = connection.cursor()
    cursor.row_factory = None
    cursor.execute(statement.sql, parameters(statement))
    if cursor.description or statement.rows is None:
        return cursor.fetchall()
    return ((cursor.rowcount,),)


def parameters(statement: Statement) -> dict[str, Any]:
    """A statement's parameters by Python's names for ?1, ?2, ..."""
    params = map(_parameter, statement.params)
    if statement.rows is None:
        return dict(zip(_NAMES, params, strict=False))
    return dict(zip(_NAMES, (_encode(statement.rows), *params), strict=False))


def must_begin(connection: Any) -> bool:
    """Whether no transaction is open yet: Python itself begins one only before a statement that
    looks like a write. Refuses a connection that commits every statement. Takes aiosqlite's
    connections, too."""
    if connection.in_transaction:
        return False
    if connection.isolation_level is None or getattr(connection, "autocommit", None) is True:
        raise ConfigurationError(
            "tx= is a connection to SQLite without an open transaction; "
            f'execute "{BEGIN}" on it first, or leave tx out'
        )
    return True


def _parameter(value: Any) -> Any:
    return _encode(value) if type(value) is list else value


def _encode(value: Any) -> str:
    return _encoder.encode(value).decode()
