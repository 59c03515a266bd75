"""SAQ, on Valkey and on PostgreSQL."""

# pyright: reportMissingImports=false
# It is installed in an environment of its own.

from __future__ import annotations

import asyncio
from typing import Any

from saq import Queue, Worker
from saq.job import TERMINAL_STATUSES

from benchmarks.peers import probe
from benchmarks.peers.contract import TEXT, Peer, Settings


async def noop(_: Any, *, n: int, text: str) -> int:
    probe.hit(n)
    return n


class SaqPeer(Peer):
    bulk = "no batch API: enqueue() of 200 at once, as its own map() does"
    step = 200

    def _make_queue(self) -> Any:
        raise NotImplementedError

    async def open(self) -> None:
        self._queue = self._make_queue()
        await self._queue.connect()

    async def close(self) -> None:
        await self._queue.disconnect()

    async def start_one(self, n: int) -> Any:
        return await self._queue.enqueue("noop", n=n, text=TEXT)

    async def start_many(self, numbers: range) -> None:
        await asyncio.gather(*[self._queue.enqueue("noop", n=n, text=TEXT) for n in numbers])

    async def run_worker(self) -> None:
        queue = self._make_queue()
        await queue.connect()
        worker = Worker(queue, [noop], concurrency=self.chosen["concurrency"])
        worker.SIGNALS = []
        await worker.start()

    async def wait(self, started: Any) -> None:
        # refresh() looks every 0.5 s; this is the call beneath it, at the rate of other peers.
        await self._queue.listen(
            [started.key],
            lambda _key, status: status in TERMINAL_STATUSES,
            10,
            poll_interval=0.005,
        )
        await started.refresh()


class SaqOnValkey(SaqPeer):
    name = "saq-redis"
    title = "SAQ"
    store = "Valkey"
    durability = "in memory; results are kept for 10 minutes"
    packages = ("saq", "redis", "hiredis")
    settings = Settings(
        drain={"concurrency": 10}, latency={"concurrency": 10}, result={"concurrency": 10}
    )

    def _make_queue(self) -> Any:
        return Queue.from_url(self.location.valkey_url())

    def set_up(self) -> None:
        self.ask_valkey("flushall")

    def remaining(self) -> int:
        return self.ask_valkey("llen", "saq:default:queued") + self.ask_valkey(
            "llen", "saq:default:active"
        )


class SaqOnPostgres(SaqPeer):
    name = "saq-postgres"
    title = "SAQ"
    store = "PostgreSQL"
    durability = "fsync at every commit; finished jobs are kept for 10 minutes"
    packages = ("saq", "psycopg")
    settings = Settings(
        drain={"concurrency": 100, "connections": 50},
        latency={"concurrency": 10, "connections": 20},
        result={"concurrency": 10, "connections": 20},
    )

    def _make_queue(self) -> Any:
        return Queue.from_url(
            self.location.postgres_url, min_size=4, max_size=self.chosen["connections"]
        )

    async def set_up(self) -> None:
        self.new_database()
        queue = self._make_queue()
        await queue.connect()
        await queue.disconnect()

    def remaining(self) -> int:
        return self.ask_postgres(
            "select count(*) from saq_jobs where status in ('new', 'queued', 'active')"
        )


PEERS = (SaqOnValkey, SaqOnPostgres)
