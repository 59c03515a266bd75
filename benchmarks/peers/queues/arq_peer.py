"""arq on Valkey."""

# pyright: reportMissingImports=false
# It is installed in an environment of its own.

from __future__ import annotations

import asyncio
from typing import Any

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker

from benchmarks.peers import probe
from benchmarks.peers.contract import TEXT, Peer, Settings


async def noop(_: Any, n: int, text: str) -> int:
    probe.hit(n)
    return n


class ArqPeer(Peer):
    name = "arq"
    title = "arq"
    store = "Valkey"
    durability = "in memory; results are kept for an hour"
    bulk = "no batch API: enqueue_job() of 200 at once"
    packages = ("arq", "redis", "hiredis")
    settings = Settings(
        drain={"max_jobs": 500, "poll_delay": 0.01, "uvloop": True},
        latency={"max_jobs": 100, "poll_delay": 0.01},
        result={"max_jobs": 100, "poll_delay": 0.01},
    )
    step = 200

    def _redis(self) -> RedisSettings:
        return RedisSettings(host="127.0.0.1", port=self.location.valkey)

    def set_up(self) -> None:
        self.ask_valkey("flushall")

    async def open(self) -> None:
        self._pool = await create_pool(self._redis())

    async def close(self) -> None:
        await self._pool.aclose()

    async def start_one(self, n: int) -> Any:
        return await self._pool.enqueue_job("noop", n, TEXT)

    async def start_many(self, numbers: range) -> None:
        await asyncio.gather(*[self._pool.enqueue_job("noop", n, TEXT) for n in numbers])

    async def run_worker(self) -> None:
        worker = Worker(
            [noop],
            redis_settings=self._redis(),
            max_jobs=self.chosen["max_jobs"],
            poll_delay=self.chosen["poll_delay"],
            handle_signals=False,
        )
        await worker.async_run()

    def remaining(self) -> int:
        return self.ask_valkey("zcard", "arq:queue")

    async def wait(self, started: Any) -> None:
        await started.result(timeout=10, poll_delay=0.002)


PEERS = (ArqPeer,)
