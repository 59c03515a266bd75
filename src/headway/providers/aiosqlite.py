"""aiosqlite connections."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiosqlite import Connection

from headway.drivers.sqlite import BEGIN, must_begin, parameters
from headway.ports.statement import Row, Statement


class Aiosqlite:
    def accepts(self, tx: object) -> bool:
        return isinstance(tx, Connection)

    async def execute(self, tx: Connection, statement: Statement) -> Sequence[Row]:
        async with tx.cursor() as cursor:
            if must_begin(tx):
                await cursor.execute(BEGIN)
            cursor.row_factory = None
            await cursor.execute(statement.sql, parameters(statement))
            if cursor.description or statement.rows is None:
                return list(await cursor.fetchall())
            return ((cursor.rowcount,),)

    def after_commit(self, tx: Connection, callback: Callable[[], None]) -> bool:
        return False
