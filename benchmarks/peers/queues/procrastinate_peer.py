"""Procrastinate on PostgreSQL, through psycopg."""

# pyright: reportMissingImports=false, reportFunctionMemberAccess=false
# It is installed in an environment of its own.

from __future__ import annotations

import procrastinate

from benchmarks.peers import probe
from benchmarks.peers.contract import TEXT, Peer, Settings, payload
from benchmarks.peers.location import Location

app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(
        conninfo=Location.from_environment().postgres_url, min_size=2, max_size=10
    )
)


@app.task(name="noop", queue="q")
async def noop(n: int, text: str) -> None:
    probe.hit(n)


class ProcrastinatePeer(Peer):
    name = "procrastinate"
    title = "Procrastinate"
    store = "PostgreSQL"
    durability = "fsync at every commit; finished jobs are kept"
    bulk = "batch_defer_async() of 1,000 at a time"
    packages = ("procrastinate", "psycopg")
    settings = Settings(
        drain={"concurrency": 10, "connections": 10},
        latency={"concurrency": 10, "connections": 10},
    )
    metrics = "ABCDEGH"

    async def set_up(self) -> None:
        self.new_database()
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        await app.open_async()

    async def close(self) -> None:
        await app.close_async()

    async def start_one(self, n: int) -> None:
        await noop.defer_async(n=n, text=TEXT)

    async def start_many(self, numbers: range) -> None:
        await noop.batch_defer_async(*[payload(n) for n in numbers])

    async def run_worker(self) -> None:
        async with app.open_async():
            await app.run_worker_async(
                queues=["q"],
                concurrency=self.chosen["concurrency"],
                install_signal_handlers=False,
                delete_jobs="never",
            )

    def remaining(self) -> int:
        return self.ask_postgres(
            "select count(*) from procrastinate_jobs where status in ('todo', 'doing')"
        )


PEERS = (ProcrastinatePeer,)
