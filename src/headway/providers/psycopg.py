"""psycopg 3 connections, awaiting and blocking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from psycopg import AsyncConnection, AsyncRawCursor, Connection, RawCursor
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from headway.drivers.postgres_statement_parameters import text_parameters
from headway.errors import ConfigurationError
from headway.ports.statement import Row, Statement


class PsycopgAsync:
    def accepts(self, tx: object) -> bool:
        return isinstance(tx, AsyncConnection)

    async def execute(self, tx: AsyncConnection[Any], statement: Statement) -> Sequence[Row]:
        _require_transaction(tx)
        async with AsyncRawCursor(tx, row_factory=tuple_row) as cursor:
            await cursor.execute(statement.sql.encode(), text_parameters(statement))
            return await cursor.fetchall() if cursor.description else ()

    def after_commit(self, tx: AsyncConnection[Any], callback: Callable[[], None]) -> bool:
        return False


class PsycopgSync:
    def accepts(self, tx: object) -> bool:
        return isinstance(tx, Connection)

    def execute(self, tx: Connection[Any], statement: Statement) -> Sequence[Row]:
        _require_transaction(tx)
        with RawCursor(tx, row_factory=tuple_row) as cursor:
            cursor.execute(statement.sql.encode(), text_parameters(statement))
            return cursor.fetchall() if cursor.description else ()

    def after_commit(self, tx: Connection[Any], callback: Callable[[], None]) -> bool:
        return False


def _require_transaction(tx: AsyncConnection[Any] | Connection[Any]) -> None:
    if tx.autocommit and tx.info.transaction_status is TransactionStatus.IDLE:
        raise ConfigurationError(
            "tx= is a connection in autocommit mode without an open transaction; "
            "open one with `conn.transaction()`, or leave tx out"
        )
