"""awa on PostgreSQL: a core in Rust, handlers in Python."""

# pyright: reportMissingImports=false
# It is installed in an environment of its own.

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import Any

import awa

from benchmarks.peers import probe
from benchmarks.peers.contract import TEXT, Peer, Settings

TEMPLATE = "template_awa"


@dataclass
class Noop:
    n: int
    text: str


class AwaPeer(Peer):
    name = "awa"
    title = "awa"
    store = "PostgreSQL"
    durability = "fsync at every commit; completions are kept in batches"
    bulk = "enqueue_many_copy() of 10,000 at a time"
    packages = ("awa-pg",)
    settings = Settings(
        drain={
            "max_workers": 1024,
            "connections": 10,
            "uvloop": True,
            "AWA_COMPLETION_SHARDS": 2,
            "AWA_COMPLETION_FLUSH_MS": 5,
        },
        latency={"max_workers": 50, "connections": 10},
    )
    step = 10_000
    metrics = "ABCDEGH"

    def _client(self) -> Any:
        return awa.AsyncClient(
            self.location.postgres_url, max_connections=self.chosen["connections"]
        )

    async def set_up(self) -> None:
        # Its migrations take seconds: they are run once, and every database is a copy.
        with self._postgres(f"{self.location.postgres}/postgres") as connection:
            sql = "select 1 from pg_database where datname = %s"
            if not connection.execute(sql, (TEMPLATE,)).fetchone():
                await self._make_template(connection)
        self.new_database(TEMPLATE)

    async def _make_template(self, connection: Any) -> None:
        """It gets its name when it is whole, so that one left halfway is never copied."""
        making = f"{TEMPLATE}_making"
        connection.execute(f"drop database if exists {making} with (force)")
        connection.execute(f"create database {making}")
        client = awa.AsyncClient(f"{self.location.postgres}/{making}", max_connections=2)
        await client.migrate()
        await client.install_queue_storage(schema="awa")
        await client.close()
        # Sessions of a closed client can outlive it, and a database in use cannot be renamed.
        connection.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s",
            (making,),
        )
        connection.execute(f"alter database {making} rename to {TEMPLATE}")

    async def open(self) -> None:
        self._producer = self._client()

    async def close(self) -> None:
        await self._producer.close()

    async def start_one(self, n: int) -> None:
        await self._producer.insert(Noop(n, TEXT), queue="default")

    async def start_many(self, numbers: range) -> None:
        jobs = [Noop(n, TEXT) for n in numbers]
        await self._producer.enqueue_many_copy(jobs, queue="default")

    async def run_worker(self) -> None:
        for name, value in self.chosen.items():
            if name.isupper():
                os.environ[name] = str(value)
        client = self._client()

        @client.task(Noop, queue="default")
        async def noop(job: Any) -> None:
            probe.hit(job.args.n)

        await client.start([{"name": "default", "max_workers": self.chosen["max_workers"]}])
        await asyncio.Event().wait()

    def remaining(self) -> int:
        # Completed jobs are counted in batches, in rollups once these are pruned, or row by row.
        done = self.ask_postgres(
            "select coalesce((select sum(completed_count) from awa.receipt_completion_batches), 0)"
            " + coalesce((select sum(pruned_completed_count) from awa.queue_terminal_rollups), 0)"
            " + (select count(*) from awa.done_entries)"
        )
        return self.location.loaded - done  # its tables do not say how many there were


PEERS = (AwaPeer,)
