"""SQLAlchemy's sync sessions and connections, on every driver of the database.

Statements go the way of the user's own: SQLAlchemy begins its transaction, logs and wraps errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.orm import Session, scoped_session

from headway.drivers.postgres_statement_parameters import array_parameters, text_parameters
from headway.drivers.sqlite import BEGIN, must_begin, parameters
from headway.errors import ConfigurationError
from headway.ports.statement import Row, Statement
from headway.providers.placeholders import by_number, pyformat
from headway.providers.sqlalchemy_after_commit import call_after_commit

AnySync = Session | Connection | scoped_session[Session]


class SqlAlchemySync:
    def __init__(self, database: str) -> None:
        self._database = database

    def accepts(self, tx: object) -> bool:
        return isinstance(tx, Session | Connection | scoped_session)

    def execute(self, tx: AnySync, statement: Statement) -> Sequence[Row]:
        return execute(_plain(tx), statement, self._database)

    def after_commit(self, tx: AnySync, callback: Callable[[], None]) -> bool:
        return after_commit(_plain(tx), callback)


def _plain(tx: AnySync) -> Session | Connection:
    return tx() if isinstance(tx, scoped_session) else tx


def execute(tx: Session | Connection, statement: Statement, database: str) -> Sequence[Row]:
    connection = tx.connection() if isinstance(tx, Session) else tx
    dialect = connection.dialect
    if dialect.name != database:
        raise ConfigurationError(
            f"tx= is a SQLAlchemy {type(tx).__name__} on {dialect.name}, and the jobs are in "
            f"{database}; pass one on the database that holds the jobs"
        )
    if not connection.in_transaction():
        connection.begin()
    if database == "sqlite":
        if must_begin(connection.connection.driver_connection):
            connection.exec_driver_sql(BEGIN)
        result = connection.exec_driver_sql(statement.sql, parameters(statement))
        if not result.returns_rows and statement.rows is not None:
            return ((result.rowcount,),)
    else:
        dbapi_connection: Any = connection.connection.dbapi_connection
        if dialect.detect_autocommit_setting(dbapi_connection):
            raise ConfigurationError(
                "tx= is a SQLAlchemy connection with the isolation level AUTOCOMMIT; "
                "use one with transactions, or leave tx out"
            )
        if dialect.paramstyle == "numeric_dollar":
            result = connection.exec_driver_sql(statement.sql, array_parameters(statement))
        else:
            params = by_number(text_parameters(statement))
            result = connection.exec_driver_sql(pyformat(statement.sql), params)
    return result.all() if result.returns_rows else ()


def after_commit(tx: Session | Connection, callback: Callable[[], None]) -> bool:
    # A connection tells only that it is about to commit, and so does a session on one of the
    # user's own: there the outermost transaction is not the session's.
    if isinstance(tx, Session) and not isinstance(tx.get_bind(), Connection):
        call_after_commit(tx, callback)
        return True
    return False
