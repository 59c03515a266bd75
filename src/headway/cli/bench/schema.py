"""A PostgreSQL schema for the time of a benchmark: made, known by its comment, and dropped."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Identifier, Literal

from headway.drivers.postgres_dsn import WHO_ANSWERS, connect_arguments, is_pooled
from headway.errors import ConfigurationError

MARK = "made by `headway bench`, which drops it: keep nothing here"


@asynccontextmanager
async def own_schema(dsn: str, schema: str) -> AsyncGenerator[None]:
    """Nobody else's: raises ConfigurationError if there is one that is not our own, or if another
    benchmark runs in it. What a killed benchmark left is dropped."""
    try:
        connection = await AsyncConnection.connect(
            dsn, autocommit=True, row_factory=tuple_row, **connect_arguments(dsn)
        )
    except psycopg.Error as error:
        raise ConfigurationError(f"PostgreSQL cannot be reached: {error}") from error
    async with connection:
        answer = await (await connection.execute(WHO_ANSWERS)).fetchone()
        if is_pooled(connection, answer):  # which would keep our lock, and is not to be measured
            raise ConfigurationError(
                "there is a pooler in between; benchmark with a DSN that leads to PostgreSQL itself"
            )
        if not await _ask(connection, "select pg_try_advisory_lock(hashtextextended(%s, 0))", MARK):
            raise ConfigurationError("another benchmark runs in this database; wait for its end")
        if await _ask(connection, "select to_regnamespace(%s) is not null", schema):
            comment = await _ask(
                connection, "select obj_description(to_regnamespace(%s), 'pg_namespace')", schema
            )
            if comment != MARK:
                raise ConfigurationError(
                    f"there is a schema {schema!r} that no benchmark made; rename or drop it, or "
                    "benchmark in another database"
                )
            await _drop(connection, schema)
        try:
            await _make(connection, schema)
            yield
        finally:
            await _drop(connection, schema)
            await _ask(connection, "select pg_advisory_unlock(hashtextextended(%s, 0))", MARK)


async def _make(connection: AsyncConnection[Any], schema: str) -> None:
    try:
        async with connection.transaction():
            await connection.execute(SQL("create schema {}").format(Identifier(schema)))
            await connection.execute(
                SQL("comment on schema {} is {}").format(Identifier(schema), Literal(MARK))
            )
    except psycopg.errors.InsufficientPrivilege as error:
        raise ConfigurationError(
            f"the schema {schema!r} cannot be made ({error}); grant create on the database"
        ) from error


async def _drop(connection: AsyncConnection[Any], schema: str) -> None:
    await connection.execute(SQL("drop schema if exists {} cascade").format(Identifier(schema)))


async def _ask(connection: AsyncConnection[Any], sql: str, parameter: str) -> Any:
    cursor = await connection.execute(sql.encode(), (parameter,))
    row = await cursor.fetchone()
    return row[0] if row else None
