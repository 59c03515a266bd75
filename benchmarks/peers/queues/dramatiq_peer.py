"""Dramatiq on Valkey, in threads."""

# pyright: reportMissingImports=false, reportFunctionMemberAccess=false
# It is installed in an environment of its own.

from __future__ import annotations

import os
from typing import Any

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from benchmarks.peers import probe
from benchmarks.peers.contract import TEXT, Peer, Settings
from benchmarks.peers.location import Location

location = Location.from_environment()
keeps_results = location.use == "result"
broker = RedisBroker(url=location.valkey_url())
if keeps_results:
    broker.add_middleware(Results(backend=RedisBackend(url=location.valkey_url())))
broker.middleware = [each for each in broker.middleware if type(each).__name__ != "Prometheus"]
dramatiq.set_broker(broker)


@dramatiq.actor(**({"store_results": True} if keeps_results else {}))
def noop(n: int, text: str) -> int | None:
    probe.hit(n)
    return n if keeps_results else None


class DramatiqPeer(Peer):
    name = "dramatiq"
    title = "Dramatiq"
    store = "Valkey"
    durability = "in memory; acknowledged after the run"
    bulk = "no batch API: send() in a loop"
    packages = ("dramatiq", "redis", "hiredis")
    settings = Settings(
        drain={"threads": 8, "dramatiq_queue_prefetch": 200},
        latency={"threads": 8},
        result={"threads": 8, "results": True},
    )
    step = 200

    def set_up(self) -> None:
        self.ask_valkey("flushall")

    def start_one(self, n: int) -> Any:
        return noop.send(n, TEXT)

    def start_many(self, numbers: range) -> None:
        for n in numbers:
            noop.send(n, TEXT)

    def run_worker(self) -> None:
        if prefetch := self.chosen.get("dramatiq_queue_prefetch"):
            os.environ["dramatiq_queue_prefetch"] = str(prefetch)  # noqa: SIM112 - so it is named
        threads = str(self.chosen["threads"])
        module = "benchmarks.peers.queues.dramatiq_peer"
        self.run_command("dramatiq", module, "--processes", "1", "--threads", threads)

    def remaining(self) -> int:
        return self.ask_valkey("hlen", "dramatiq:default.msgs")

    def wait(self, started: Any) -> None:
        started.get_result(block=True, timeout=10_000)


PEERS = (DramatiqPeer,)
