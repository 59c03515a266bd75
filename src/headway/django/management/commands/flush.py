"""Django's `flush`, which deletes all data of a database, including jobs. Django's
TransactionTestCase runs it after each test."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import flush
from django.db import connections

from headway.django import app
from headway.django.schema import delete_statements


class Command(flush.Command):
    def handle(self, **options: Any) -> None:
        connection: Any = connections[options["database"]]
        if connection.alias != app.using:
            super().handle(**options)
            return
        operations = connection.ops
        execute = operations.execute_sql_flush
        ours = delete_statements(connection)

        def execute_all(statements: list[str]) -> None:
            execute([*statements, *ours])  # in one transaction, after the confirmation

        operations.execute_sql_flush = execute_all
        try:
            super().handle(**options)
        finally:
            del operations.execute_sql_flush
