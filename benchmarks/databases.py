"""Databases to measure on: those of `headway bench`, with a checkpoint before each measurement."""

from __future__ import annotations

from headway.cli.bench.database import PostgresBench, SqliteBench


class Postgres(PostgresBench):
    kind = "postgres"

    def settle(self) -> None:
        super().settle()
        self._run("checkpoint")


class Sqlite(SqliteBench):
    kind = "sqlite"


Database = Postgres | Sqlite
