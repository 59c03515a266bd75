"""sqlite3 connections; they block, briefly, and serve async callers as well."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from headway.domain.errors import ConfigurationError
from headway.ports.statement import Row, Statement


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
    """Run a statement once, or once per item of its batch. A batch that returns nothing answers
    with one row: how many rows it changed."""
    cursor = connection.cursor()
    cursor.row_factory = None
    params = tuple(map(_parameter, statement.params))
    if statement.rows is None:
        return cursor.execute(statement.sql, params).fetchall()
    sql = statement.sql
    if "returning" not in sql:
        return [(cursor.executemany(sql, [(*row, *params) for row in statement.rows]).rowcount,)]
    found: list[Row] = []
    for row in statement.rows:
        found += cursor.execute(sql, (*row, *params)).fetchall()
    return found


def _parameter(value: Any) -> Any:
    return json.dumps(value) if type(value) is list else value
