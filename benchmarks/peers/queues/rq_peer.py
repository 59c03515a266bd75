"""RQ on Valkey: the worker that runs jobs itself; its usual one forks for each job."""

# pyright: reportMissingImports=false
# It is installed in an environment of its own.

from __future__ import annotations

import logging
from typing import Any

from redis import Redis
from rq import Queue, SimpleWorker

from benchmarks.peers import probe
from benchmarks.peers.contract import TEXT, Peer, Settings

FUNCTION = "benchmarks.peers.queues.rq_peer.noop"
KEEP = 500


def noop(n: int, text: str) -> int:
    probe.hit(n)
    return n


class RqPeer(Peer):
    name = "rq"
    title = "RQ"
    store = "Valkey"
    durability = "in memory; results are kept for 500 s"
    bulk = "enqueue_many() of 1,000 at a time"
    packages = ("rq", "redis", "hiredis")
    settings = Settings(
        drain={"worker": "SimpleWorker"},
        latency={"worker": "SimpleWorker"},
        result={"worker": "SimpleWorker"},
    )

    def set_up(self) -> None:
        self.ask_valkey("flushall")

    def open(self) -> None:
        self._queue = Queue("q", connection=Redis(port=self.location.valkey))

    def start_one(self, n: int) -> Any:
        return self._queue.enqueue(FUNCTION, n, TEXT, result_ttl=KEEP)

    def start_many(self, numbers: range) -> None:
        self._queue.enqueue_many(
            [Queue.prepare_data(FUNCTION, (n, TEXT), result_ttl=KEEP) for n in numbers]
        )

    def run_worker(self) -> None:
        logging.getLogger("rq.worker").setLevel(logging.ERROR)
        connection = Redis(port=self.location.valkey)
        worker = SimpleWorker(
            [Queue("q", connection=connection)], connection=connection, log_job_description=False
        )
        worker.work(logging_level="ERROR")

    def remaining(self) -> int:
        return (
            self.ask_valkey("llen", "rq:queue:q")
            + self.ask_valkey("llen", "rq:queue:q:intermediate")
            + self.ask_valkey("zcard", "rq:wip:q")
        )

    def wait(self, started: Any) -> None:
        while started.latest_result(timeout=10) is None:
            pass


PEERS = (RqPeer,)
