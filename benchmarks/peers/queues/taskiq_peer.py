"""Taskiq on Valkey: its stream broker, which acknowledges, and its list broker, which does not."""

# pyright: reportMissingImports=false
# It is installed in an environment of its own.

from __future__ import annotations

import asyncio
from typing import Any

from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend, RedisStreamBroker

from benchmarks.peers import probe
from benchmarks.peers.contract import TEXT, Peer, Settings
from benchmarks.peers.location import Location


def _make_broker(location: Location) -> Any:
    url = location.valkey_url()
    if location.peer == "taskiq-list":
        broker: Any = ListQueueBroker(url)
    else:
        broker = RedisStreamBroker(url, xread_count=100, xread_block=1000)
    if location.use == "result":
        broker = broker.with_result_backend(RedisAsyncResultBackend(url, result_ex_time=600))
    return broker


broker = _make_broker(Location.from_environment())


@broker.task("noop")
async def noop(n: int, text: str) -> int:
    probe.hit(n)
    return n


class TaskiqPeer(Peer):
    title = "Taskiq"
    store = "Valkey"
    bulk = "no batch API: kiq() of 200 at once"
    packages = ("taskiq", "taskiq-redis", "redis", "hiredis")
    step = 200

    def set_up(self) -> None:
        self.ask_valkey("flushall")

    async def open(self) -> None:
        await broker.startup()

    async def close(self) -> None:
        await broker.shutdown()

    async def start_one(self, n: int) -> Any:
        return await noop.kiq(n=n, text=TEXT)

    async def start_many(self, numbers: range) -> None:
        await asyncio.gather(*[noop.kiq(n=n, text=TEXT) for n in numbers])

    def run_worker(self) -> None:
        prefetch = self.chosen.get("max_prefetch")
        self.run_command(
            "taskiq",
            "worker",
            "benchmarks.peers.queues.taskiq_peer:broker",
            *("--workers", "1"),
            *("--max-async-tasks", str(self.chosen["max_async_tasks"])),
            *(("--max-prefetch", str(prefetch)) if prefetch else ()),
            *("--log-level", "ERROR"),
        )

    async def wait(self, started: Any) -> None:
        await started.wait_result(check_interval=0.002, timeout=10)


class TaskiqStream(TaskiqPeer):
    name = "taskiq"
    title = "Taskiq (streams)"
    durability = "in memory; acknowledged after the run"
    settings = Settings(
        drain={"max_async_tasks": 100},
        latency={"max_async_tasks": 100},
        result={"max_async_tasks": 100},
    )

    def remaining(self) -> int:
        group = self.ask_valkey("xinfo", "groups", "taskiq")[0]
        known = dict(zip(group[::2], group[1::2], strict=True))
        undelivered = known.get("lag")
        return (1 if undelivered is None else undelivered) + known["pending"]


class TaskiqList(TaskiqPeer):
    name = "taskiq-list"
    title = "Taskiq (list)"
    durability = "in memory; a job is dropped before it runs"
    settings = Settings(
        drain={"max_async_tasks": 100, "max_prefetch": 100},
        latency={"max_async_tasks": 100},
        result={"max_async_tasks": 100},
    )

    def remaining(self) -> int:
        return self.ask_valkey("llen", "taskiq")


PEERS = (TaskiqStream, TaskiqList)
