"""Chancy on PostgreSQL, through psycopg."""

# pyright: reportMissingImports=false, reportFunctionMemberAccess=false
# It is installed in an environment of its own.

from __future__ import annotations

from typing import Any

from chancy import Chancy, Queue, Worker, job

from benchmarks.peers import probe
from benchmarks.peers.contract import TEXT, Peer, Settings


@job(queue="q")
async def noop(*, n: int, text: str) -> None:
    probe.hit(n)


class ChancyPeer(Peer):
    name = "chancy"
    title = "Chancy"
    store = "PostgreSQL"
    durability = "fsync at every commit; finished jobs are kept"
    bulk = "push_many() of 1,000 at a time"
    packages = ("chancy", "psycopg")
    settings = Settings(
        drain={"concurrency": 1000, "eager_polling": True},
        latency={"concurrency": 50, "eager_polling": True},
        result={"concurrency": 50, "eager_polling": True, "send_outgoing_interval": 0.005},
    )

    def _app(self) -> Any:
        return Chancy(self.location.postgres_url, max_connection_pool_size=10)

    async def set_up(self) -> None:
        self.new_database()
        async with self._app() as app:
            await app.migrate()

    async def open(self) -> None:
        self._chancy = self._app()
        await self._chancy.__aenter__()

    async def close(self) -> None:
        await self._chancy.__aexit__(None, None, None)

    async def start_one(self, n: int) -> Any:
        return await self._chancy.push(noop.job.with_kwargs(n=n, text=TEXT))

    async def start_many(self, numbers: range) -> None:
        jobs = [noop.job.with_kwargs(n=n, text=TEXT) for n in numbers]
        async for _ in self._chancy.push_many(jobs, batch_size=self.step):
            pass

    async def run_worker(self) -> None:
        queue = Queue(
            "q",
            concurrency=self.chosen["concurrency"],
            executor=Chancy.Executor.Async,
            polling_interval=1,
            eager_polling=self.chosen["eager_polling"],
        )
        async with self._app() as app:
            await app.declare(queue, upsert=True)
            async with Worker(app, register_signal_handlers=False) as worker:
                if interval := self.chosen.get("send_outgoing_interval"):
                    worker.send_outgoing_interval = interval
                await worker.wait_for_shutdown()

    def remaining(self) -> int:
        return self.ask_postgres(
            "select count(*) from chancy_jobs where state not in ('succeeded', 'failed')"
        )

    async def wait(self, started: Any) -> None:
        await self._chancy.wait_for_job(started, interval=0.005)


PEERS = (ChancyPeer,)
