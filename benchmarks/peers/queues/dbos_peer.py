"""DBOS on PostgreSQL: a durable workflow per job."""

# pyright: reportMissingImports=false
# It is installed in an environment of its own.

from __future__ import annotations

import time
from typing import Any

import sqlalchemy
from dbos import DBOS, DBOSClient

from benchmarks.peers import probe
from benchmarks.peers.contract import TEXT, Peer, Settings

OPTIONS: Any = {"workflow_name": "noop", "queue_name": "q"}
BEST = {"concurrency": 500, "connections": 50, "polling": 0.01}
QUICK = {"concurrency": 100, "connections": 20, "polling": 0.01}


class DbosPeer(Peer):
    name = "dbos"
    title = "DBOS"
    store = "PostgreSQL"
    durability = "fsync at every commit; workflows are kept with their results"
    bulk = "no batch API: enqueue_in_transaction(), 1,000 in one transaction"
    packages = ("dbos", "sqlalchemy", "psycopg")
    settings = Settings(drain=BEST, latency=QUICK, result=QUICK)

    def _configuration(self) -> Any:
        return {
            "name": "bench",
            "system_database_url": self.location.postgres_url,
            "run_admin_server": False,
            "log_level": "ERROR",
            "sys_db_pool_size": self.chosen["connections"],
            "application_version": "1",
            "enable_otlp": False,
        }

    def _register(self, **options: Any) -> None:
        DBOS.register_queue(
            "q",
            worker_concurrency=self.chosen["concurrency"],
            polling_interval_sec=self.chosen["polling"],
            **options,
        )

    def set_up(self) -> None:
        self.new_database()
        DBOS(config=self._configuration())
        DBOS.launch()
        self._register()
        DBOS.destroy()

    def open(self) -> None:
        self._client = DBOSClient(system_database_url=self.location.postgres_url)
        self._engine = sqlalchemy.create_engine(
            self.location.postgres_url.replace("postgresql:", "postgresql+psycopg:")
        )

    def close(self) -> None:
        self._engine.dispose()
        self._client.destroy()

    def start_one(self, n: int) -> Any:
        return self._client.enqueue(OPTIONS, n, TEXT)

    def start_many(self, numbers: range) -> None:
        with self._engine.begin() as connection:
            for n in numbers:
                self._client.enqueue_in_transaction(connection, OPTIONS, n, TEXT)

    def run_worker(self) -> None:
        DBOS(config=self._configuration())

        @DBOS.workflow(name="noop")
        async def noop(n: int, text: str) -> None:
            probe.hit(n)

        DBOS.launch()
        self._register(on_conflict="always_update")
        while True:
            time.sleep(1)

    def remaining(self) -> int:
        return self.ask_postgres(
            "select count(*) from dbos.workflow_status"
            " where queue_name = 'q' and status in ('ENQUEUED', 'PENDING')"
        )

    def wait(self, started: Any) -> None:
        started.get_result(polling_interval_sec=0.005)


PEERS = (DbosPeer,)
