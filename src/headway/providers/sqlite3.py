"""sqlite3 connections. They block, but only briefly, so they serve async callers as well."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from headway.drivers.sqlite import BEGIN, execute, must_begin
from headway.ports.statement import Row, Statement


class Sqlite3:
    def accepts(self, tx: object) -> bool:
        return isinstance(tx, sqlite3.Connection)

    def execute(self, tx: sqlite3.Connection, statement: Statement) -> Sequence[Row]:
        if must_begin(tx):
            tx.execute(BEGIN)
        return execute(tx, statement)

    def after_commit(self, tx: sqlite3.Connection, callback: Callable[[], None]) -> bool:
        return False
