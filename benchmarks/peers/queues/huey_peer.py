"""Huey, on Valkey and on SQLite. It drops a job before the job runs."""

# pyright: reportMissingImports=false
# It is installed in an environment of its own.

from __future__ import annotations

import logging
from typing import Any

from huey import RedisHuey, SqliteHuey

from benchmarks.peers import probe
from benchmarks.peers.contract import TEXT, Peer, Settings
from benchmarks.peers.location import Location


def _make(location: Location) -> Any:
    keeps_results = location.use == "result"
    if location.peer == "huey-sqlite":
        return SqliteHuey("q", filename=location.file, results=keeps_results, fsync=False)
    return RedisHuey("q", port=location.valkey, results=keeps_results)


location = Location.from_environment()
huey = _make(location)


@huey.task()
def noop(n: int, text: str) -> int | None:
    probe.hit(n)
    return n if location.use == "result" else None


class HueyPeer(Peer):
    title = "Huey"
    bulk = "no batch API: calls in a loop"
    step = 200

    def start_one(self, n: int) -> Any:
        return noop(n, TEXT)

    def start_many(self, numbers: range) -> None:
        for n in numbers:
            noop(n, TEXT)

    def run_worker(self) -> None:
        logging.getLogger("huey").setLevel(logging.ERROR)
        huey.create_consumer(
            workers=self.chosen["workers"],
            worker_type="thread",
            periodic=False,
            initial_delay=0.01,
            max_delay=0.1,
            check_worker_health=False,
        ).run()

    def remaining(self) -> int:
        return huey.pending_count()

    def wait(self, started: Any) -> None:
        started.get(blocking=True, timeout=10, backoff=1.0, max_delay=0.002)


class HueyOnValkey(HueyPeer):
    name = "huey-redis"
    store = "Valkey"
    durability = "in memory; a job is dropped before it runs"
    packages = ("huey", "redis", "hiredis")
    settings = Settings(
        drain={"workers": 4},
        latency={"workers": 4},
        result={"workers": 4, "results": True},
    )

    def set_up(self) -> None:
        self.ask_valkey("flushall")


class HueyOnSqlite(HueyPeer):
    name = "huey-sqlite"
    store = "SQLite"
    durability = "WAL, synchronous=OFF; a job is dropped before it runs"
    packages = ("huey",)
    settings = Settings(
        drain={"workers": 1, "fsync": False},
        latency={"workers": 1, "fsync": False},
        result={"workers": 1, "fsync": False, "results": True},
    )

    def set_up(self) -> None:
        huey.storage.close()
        self.new_file()
        SqliteHuey("q", filename=self.location.file, fsync=False)


PEERS = (HueyOnValkey, HueyOnSqlite)
