"""Django's connections, to PostgreSQL and SQLite, and the proxy that is `django.db.connection`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from headway.drivers.postgres_statement_parameters import text_parameters
from headway.drivers.sqlite import parameters
from headway.errors import ConfigurationError
from headway.ports.statement import Row, Statement
from headway.providers.placeholders import by_number, percent_doubled, pyformat


class Django:
    def __init__(self, database: str) -> None:
        self._database = database

    def accepts(self, tx: object) -> bool:
        return tx is connection or isinstance(tx, BaseDatabaseWrapper)

    def execute(self, tx: Any, statement: Statement) -> Sequence[Row]:
        wrapper = _wrapper(tx)
        if wrapper.vendor != self._database:
            raise ConfigurationError(
                f"tx= is Django's connection {wrapper.alias!r} to {wrapper.vendor}, and the jobs "
                f"are in {self._database}; pass the one to the database that holds the jobs"
            )
        if wrapper.get_autocommit():
            raise ConfigurationError(
                f"tx= is Django's connection {wrapper.alias!r} without an open transaction; "
                "open one with `transaction.atomic()`, or leave tx out"
            )
        sqlite = self._database == "sqlite"
        with wrapper.cursor() as cursor:
            if sqlite:
                cursor.execute(percent_doubled(statement.sql), parameters(statement))
            else:
                cursor.execute(pyformat(statement.sql), by_number(text_parameters(statement)))
            if cursor.description:
                rows: Sequence[Row] = cursor.fetchall()
                return rows if sqlite else _with_zones(rows, wrapper.timezone_name)
            return ((cursor.rowcount,),) if sqlite and statement.rows is not None else ()

    def after_commit(self, tx: Any, callback: Callable[[], None]) -> bool:
        wrapper = _wrapper(tx)
        if not wrapper.in_atomic_block:  # set_autocommit(False): Django sees no commit then
            return False
        transaction.on_commit(callback, using=wrapper.alias)
        return True


def _wrapper(tx: Any) -> Any:
    return connections[DEFAULT_DB_ALIAS] if tx is connection else tx


def _with_zones(rows: Sequence[Row], zone: str) -> Sequence[Row]:
    """With USE_TZ = False, Django reads times without their zone, which is the connection's."""
    if not any(_is_naive(value) for value in (rows[0] if rows else ())):
        return rows
    info = ZoneInfo(zone)
    return [
        [value.replace(tzinfo=info) if _is_naive(value) else value for value in row] for row in rows
    ]


def _is_naive(value: object) -> bool:
    return isinstance(value, datetime) and value.tzinfo is None
