"""sqlite3 connections; they block, briefly, and serve async callers as well."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headway.domain.errors import ConfigurationError
from headway.ports.statement import Row, Statement

_encoder = msgspec.json.Encoder()
# Parameters are numbered (?1, ?2, ...), and Python counts those as named ones: by position they
# are deprecated in 3.12.
_NAMES = tuple(map(str, range(1, 40)))


class Sqlite3:
    def accepts(self, tx: object) -> bool:
        return isinstance(tx, sqlite3.Connection)

    def execute(self, tx: sqlite3.Connection, statement: Statement) -> Sequence[Row]:
        if not tx.in_transaction:
            if tx.isolation_level is None:
                raise ConfigurationError(
                    "tx= is a sqlite3 connection without an open transaction; "
                    'execute "begin immediate" on it first'
                )
            tx.execute("begin immediate")
        return execute(tx, statement)

    def after_commit(self, tx: sqlite3.Connection, callback: Callable[[], None]) -> bool:
        return False


def execute(connection: sqlite3.Connection, statement: Statement) -> Sequence[Row]:
    """Run a statement. The items of a batch are its first parameter, as JSON: one statement for
    all of them is twice as fast as one for each, and gives up the GIL once. A batch that returns no
    rows answers with one: how many rows it changed."""
    cursor = connection.cursor()
    cursor.row_factory = None
    params = map(_parameter, statement.params)
    if statement.rows is None:
        return cursor.execute(statement.sql, dict(zip(_NAMES, params, strict=False))).fetchall()
    items = _encode(statement.rows)
    cursor.execute(statement.sql, dict(zip(_NAMES, (items, *params), strict=False)))
    return cursor.fetchall() if cursor.description else ((cursor.rowcount,),)


def _parameter(value: Any) -> Any:
    return _encode(value) if type(value) is list else value


def _encode(value: Any) -> str:
    return _encoder.encode(value).decode()
