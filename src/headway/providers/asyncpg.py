"""asyncpg connections, and those of its pools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headway.drivers.postgres_statement_parameters import array_parameters
from headway.errors import ConfigurationError
from headway.ports.statement import Row, Statement


class Asyncpg:
    def accepts(self, tx: object) -> bool:
        return type(tx).__module__.partition(".")[0] == "asyncpg" and hasattr(tx, "fetch")

    async def execute(self, tx: Any, statement: Statement) -> Sequence[Row]:
        if not tx.is_in_transaction():
            raise ConfigurationError(
                "tx= is a connection without an open transaction; "
                "open one with `conn.transaction()`, or leave tx out"
            )
        rows: list[Row] = await tx.fetch(statement.sql, *array_parameters(statement))
        return rows

    def after_commit(self, tx: Any, callback: Callable[[], None]) -> bool:
        return False
