"""Headway's migrations as operations of Django migrations, one per step."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import OperationalError
from django.db.migrations.operations.base import Operation
from django.db.transaction import atomic

from headway.django import app
from headway.stores.sql.sql_files import SqlMigration, load_migrations

_LOCK_NOT_AVAILABLE = "55P03"


class ApplyStep(Operation):
    """Apply one step of the store's schema, unless `headway migrate` has done so. Only on the
    database of the jobs; Django's models are not changed."""

    def __init__(self, version: int) -> None:
        self.version = version

    def state_forwards(self, app_label: str, state: Any) -> None: ...

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        connection = schema_editor.connection
        if connection.alias != app.using:
            return
        tables = _tables(connection.vendor)
        for step in tables.steps:
            if step.version == self.version:
                _run(schema_editor, tables.before)
                if schema_editor.collect_sql or not _is_applied(connection, tables, step):
                    tables.apply(schema_editor, step)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        connection = schema_editor.connection
        if connection.alias == app.using and self.version == 1:
            _run(schema_editor, _tables(connection.vendor).drop(connection))

    def describe(self) -> str:
        return f"Step {self.version} of Headway's tables"


@dataclass
class _Tables:
    package: str
    """The store's."""
    prefix: str
    """Before the name of each table."""

    @property
    def migration(self) -> str:
        return f"{self.prefix}migration"

    @property
    def steps(self) -> list[SqlMigration]:
        return load_migrations(self.package, self.prefix)


class _PostgresTables(_Tables):
    def __init__(self, schema: str) -> None:
        super().__init__("headway.stores.postgres", f'"{schema}".')
        self.schema = schema

    @property
    def before(self) -> list[str]:
        from headway.stores.postgres.migrate import prelude  # noqa: PLC0415 - needs psycopg

        return [prelude(self.schema)]

    def apply(self, schema_editor: Any, step: SqlMigration) -> None:
        from headway.stores.postgres.migrate import index_build  # noqa: PLC0415 - needs psycopg

        if (build := index_build(self.schema, step)) is None:
            record = (
                f"insert into {self.migration} (version, name)"
                f" values ({step.version}, '{step.name}')"
            )
            self._run_in_tries(schema_editor, [step.sql, record])
        else:
            self._run_in_tries(schema_editor, [build.drop_leftover])
            _run(schema_editor, [build.create, build.record])
            if not schema_editor.collect_sql and not _is_applied(
                schema_editor.connection, self, step
            ):
                raise OperationalError(
                    "another process builds an index of Headway's jobs; run `manage.py migrate`"
                    " again when it has ended"
                )

    def _run_in_tries(self, schema_editor: Any, statements: Sequence[str]) -> None:
        """Like `headway migrate up`: short tries for the locks, with pauses in which jobs run."""
        from headway.stores.postgres.migrate import LOCK_TIMEOUT, PATIENCE, PAUSE  # noqa: PLC0415 - needs psycopg

        briefly = f"set local lock_timeout = '{LOCK_TIMEOUT}'"
        as_before = "set local lock_timeout to default"
        give_up_at = time.monotonic() + PATIENCE
        while True:
            try:
                with atomic(using=schema_editor.connection.alias):
                    _run(schema_editor, [briefly, *statements, as_before])
                return
            except OperationalError as error:
                if _state_of(error) != _LOCK_NOT_AVAILABLE or time.monotonic() >= give_up_at:
                    raise
            time.sleep(PAUSE)

    def drop(self, connection: Any) -> list[str]:
        return [f'drop schema "{self.schema}" cascade']

    def existing(self, connection: Any) -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute("select tablename from pg_tables where schemaname = %s", [self.schema])
            return [f'"{self.schema}".{name}' for (name,) in cursor.fetchall()]


class _SqliteTables(_Tables):
    def __init__(self, prefix: str) -> None:
        super().__init__("headway.stores.sqlite", prefix)

    @property
    def before(self) -> list[str]:
        from headway.stores.sqlite.migrate import prelude, split  # noqa: PLC0415 - only where it is SQLite

        return split(prelude(self.prefix))

    def apply(self, schema_editor: Any, step: SqlMigration) -> None:
        from headway.stores.sqlite.migrate import split  # noqa: PLC0415 - only where it is SQLite

        record = (
            f"insert into {self.migration} (version, name, applied_at) "
            f"values ({step.version}, '{step.name}', strftime('%s', 'now') * 1000000)"
        )
        with atomic(using=schema_editor.connection.alias):
            _run(schema_editor, [*split(step.sql), record])

    def drop(self, connection: Any) -> list[str]:
        ours = {*_created(self.steps), self.migration}
        return [f"drop table {name}" for name in self.existing(connection) if name in ours]

    def existing(self, connection: Any) -> list[str]:
        names: list[str] = connection.introspection.table_names()
        return names


def delete_statements(connection: Any) -> list[str]:
    """Statements that delete all rows of Headway's tables, but not its migrations."""
    tables = _tables(connection.vendor)
    ours = _created(tables.steps)
    return [f"delete from {name}" for name in tables.existing(connection) if name in ours]


def _created(steps: Sequence[SqlMigration]) -> set[str]:
    return {name for step in steps for name in re.findall(r"create table (\S+) \(", step.sql)}


def _tables(vendor: str) -> _PostgresTables | _SqliteTables:
    return _PostgresTables(app.schema) if vendor == "postgresql" else _SqliteTables(app.prefix)


def _is_applied(
    connection: Any, tables: _PostgresTables | _SqliteTables, step: SqlMigration
) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(f"select 1 from {tables.migration} where version = {step.version}")
        return cursor.fetchone() is not None


def _state_of(error: OperationalError) -> str | None:
    """PostgreSQL's code of an error, from psycopg or psycopg2."""
    cause = error.__cause__
    return getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)


def _run(schema_editor: Any, statements: Sequence[str]) -> None:
    for statement in statements:
        schema_editor.execute(statement, params=None)
