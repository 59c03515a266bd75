"""PgQueuer on PostgreSQL, through asyncpg."""

# pyright: reportMissingImports=false
# It is installed in an environment of its own.

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
from pgqueuer import PgQueuer, Queries
from pgqueuer.core.completion import CompletionWatcher
from pgqueuer.db import AsyncpgDriver

from benchmarks.peers import probe
from benchmarks.peers.contract import Peer, Settings, payload


class PgQueuerPeer(Peer):
    name = "pgqueuer"
    title = "PgQueuer"
    store = "PostgreSQL"
    durability = "fsync at every commit; a job is removed once it ran"
    bulk = "enqueue() of 1,000 at a time"
    packages = ("pgqueuer", "asyncpg")
    settings = Settings(
        drain={"batch_size": 500},
        latency={"batch_size": 10},
        result={"batch_size": 1},
    )

    async def _driver(self) -> Any:
        return AsyncpgDriver(await asyncpg.connect(self.location.postgres_url))

    async def set_up(self) -> None:
        self.new_database()
        await Queries(await self._driver()).install()

    async def open(self) -> None:
        self._queries = Queries(await self._driver())
        self._watcher: Any = None

    async def close(self) -> None:
        if self._watcher is not None:
            await self._watcher.__aexit__(None, None, None)

    async def start_one(self, n: int) -> UUID | int:
        return (await self._queries.enqueue("noop", json.dumps(payload(n)).encode(), 0))[0]

    async def start_many(self, numbers: range) -> None:
        inputs = [json.dumps(payload(n)).encode() for n in numbers]
        await self._queries.enqueue(["noop"] * len(inputs), inputs, [0] * len(inputs))

    async def run_worker(self) -> None:
        worker = PgQueuer(await self._driver())

        @worker.entrypoint("noop")
        async def noop(job: Any) -> None:
            probe.hit(json.loads(job.payload)["n"])

        await worker.run(
            batch_size=self.chosen["batch_size"], dequeue_timeout=timedelta(seconds=30)
        )

    def remaining(self) -> int:
        return self.ask_postgres("select count(*) from pgqueuer")

    async def wait(self, started: Any) -> None:
        # It tells that a job is done; there is no value to return.
        if self._watcher is None:
            self._watcher = CompletionWatcher(
                await self._driver(), queries=self._queries, debounce=timedelta(milliseconds=1)
            )
            await self._watcher.__aenter__()
        await self._watcher.wait_for(started)


PEERS = (PgQueuerPeer,)
