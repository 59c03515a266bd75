"""Celery on Valkey."""

# pyright: reportMissingImports=false, reportFunctionMemberAccess=false
# It is installed in an environment of its own.

from __future__ import annotations

import os
from typing import Any

from celery import Celery

from benchmarks.peers import probe
from benchmarks.peers.contract import TEXT, Peer, Settings
from benchmarks.peers.location import Location

location = Location.from_environment()
keeps_results = location.use == "result"
app = Celery(
    "bench", broker=location.valkey_url(), backend=location.valkey_url(1) if keeps_results else None
)
app.conf.update(
    task_ignore_result=not keeps_results,
    worker_prefetch_multiplier=100 if location.use == "drain" else 4,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    worker_enable_remote_control=False,
    worker_send_task_events=False,
)


@app.task(name="noop")
def noop(n: int, text: str) -> int:
    probe.hit(n)
    return n


class CeleryPeer(Peer):
    name = "celery"
    title = "Celery"
    store = "Valkey"
    durability = "in memory; acknowledged before the run, its default"
    bulk = "no batch API: apply_async() in a loop with one producer"
    packages = ("celery", "kombu", "redis", "hiredis")
    settings = Settings(
        drain={"pool": "solo", "concurrency": 1, "worker_prefetch_multiplier": 100},
        latency={"pool": "threads", "concurrency": 4},
        result={"pool": "threads", "concurrency": 4, "results": True},
    )
    step = 200

    def set_up(self) -> None:
        self.ask_valkey("flushall")

    def start_one(self, n: int) -> Any:
        return noop.delay(n, TEXT)

    def start_many(self, numbers: range) -> None:
        with app.producer_pool.acquire(block=True) as producer:
            for n in numbers:
                noop.apply_async((n, TEXT), producer=producer)

    def run_worker(self) -> None:
        self.run_command(
            "celery",
            *("-A", "benchmarks.peers.queues.celery_peer"),
            "worker",
            *("-P", self.chosen["pool"]),
            *("-c", str(self.chosen["concurrency"])),
            *("-l", "ERROR"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
            *("-n", f"worker{os.getpid()}@bench"),
        )

    def remaining(self) -> int:
        return self.ask_valkey("llen", "celery") + self.ask_valkey("hlen", "unacked")

    def wait(self, started: Any) -> None:
        started.get(timeout=10, interval=0.002)


PEERS = (CeleryPeer,)
