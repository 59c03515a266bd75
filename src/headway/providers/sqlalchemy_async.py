"""SQLAlchemy's async sessions and connections. A module of its own: importing SQLAlchemy's asyncio
part needs greenlet, which programs without an event loop may not have installed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

from headway.ports.statement import Row, Statement
from headway.providers.sqlalchemy import after_commit, execute

AnyAsync = AsyncSession | AsyncConnection | async_scoped_session[AsyncSession]


class SqlAlchemyAsync:
    def __init__(self, database: str) -> None:
        self._database = database

    def accepts(self, tx: object) -> bool:
        return isinstance(tx, AsyncSession | AsyncConnection | async_scoped_session)

    async def execute(self, tx: AnyAsync, statement: Statement) -> Sequence[Row]:
        return await _plain(tx).run_sync(execute, statement, self._database)

    def after_commit(self, tx: AnyAsync, callback: Callable[[], None]) -> bool:
        plain = _plain(tx)
        if isinstance(plain, AsyncSession):
            return after_commit(plain.sync_session, callback)
        return False


def _plain(tx: AnyAsync) -> AsyncSession | AsyncConnection:
    return tx() if isinstance(tx, async_scoped_session) else tx
