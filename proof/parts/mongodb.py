"""Part mongodb: under load, the primary of a replica set is killed; another one is elected, and the
killed node comes back and follows it."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Sequence
from typing import Any

import pymongo
from pymongo.errors import PyMongoError
from pymongo.synchronous.change_stream import CollectionChangeStream

from headway import Request
from headway.stores.mongodb import MongoStore
from proof.tools.databases import LEFT
from proof.tools.report import Trial
from proof.tools.work import Work
from proof.tools.worker_group import LENGTH, Herd, herd
from tests.support.servers.mongodb import MongoReplicaSet

NODES = 3
WORKERS = 3
LOAD = 2.0
"""Seconds of work between two kills."""
RESUMED = 30.0
ENDED = ["completed", "failed", "cancelled"]
FIELDS = ("state", "token", "version", "output")


class MongoPlace:
    """A database as the checker sees it. A change stream tells it of every claim and every end that
    a majority has; the books are kept in SQLite, where they can be asked like those of others."""

    kind = "mongodb"

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(dsn)
        # A stream looks for so long for the node that it was on before it goes to another.
        self._watcher: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(
            dsn, serverSelectionTimeoutMS=1_000
        )
        self._database = self._client.get_default_database()
        self._jobs = self._database["headway.job"]
        self._changes: CollectionChangeStream[dict[str, Any]] | None = None
        self._books = sqlite3.connect(":memory:")

    def prepare(self) -> None:
        asyncio.run(MongoStore(self.dsn).migrate())
        self._database.create_collection("effect")
        self._books.executescript(
            """
            create table job (
                id text, type text, state text, sequence_id text, position int, lease_version int,
                attempts int, losses int
            );
            create table effect (job text, token text, version int);
            create table ended (id text, state text);
            create table claimed (id text, token text, version int, at double precision);
            """
        )
        # What becomes of a job shows in the fields that change, without the job itself.
        changed = [f"updateDescription.updatedFields.{field}" for field in FIELDS]
        fields = dict.fromkeys(["documentKey", "clusterTime", "wallTime", *changed], 1)
        updates = [{"$match": {"operationType": "update"}}, {"$project": fields}]
        watched = self._watcher.get_default_database()["headway.job"]
        self._changes = watched.watch(updates, batch_size=1_000, max_await_time_ms=100)

    def ask(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        deadline = time.monotonic() + RESUMED
        while True:
            try:
                return self._ask(sql, parameters)
            except PyMongoError:  # there is no primary just now
                if time.monotonic() > deadline:
                    raise

    def _ask(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        if sql == LEFT:
            return [(self._jobs.count_documents({"state": {"$nin": ENDED}}),)]
        self._catch_up()
        if "{job}" in sql:
            self._copy_jobs()
        if "effect" in sql:
            self._copy_effects()
        question = sql.format(job="job").replace("%s", "?")
        return self._books.execute(question, parameters).fetchall()

    def close(self) -> None:
        if self._changes is not None:
            self._changes.close()
        self._watcher.close()
        self._client.close()
        self._books.close()

    def _catch_up(self) -> None:
        """Enter what has happened until now."""
        now = self._client.admin.command("ping")["operationTime"]
        assert self._changes is not None
        while (change := self._changes.try_next()) is not None:
            id = change["documentKey"]["_id"]
            new = change["updateDescription"]["updatedFields"]
            if new.get("state") == "running":
                row = (id, new["token"], new["version"], change["wallTime"].timestamp())
                self._books.execute("insert into claimed values (?, ?, ?, ?)", row)
            elif new.get("state") in ENDED or "output" in new:
                self._books.execute("insert into ended values (?, ?)", (id, new.get("state")))
            if change["clusterTime"] > now:
                break

    def _copy_jobs(self) -> None:
        self._books.execute("delete from job")
        self._books.executemany(
            "insert into job values (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (
                    *(job["_id"], job["type"], job["state"], job.get("sequence_id") or job["_id"]),
                    *(job["position"], job["version"], job["attempts"], job["losses"]),
                )
                for job in self._jobs.find()
            ),
        )

    def _copy_effects(self) -> None:
        self._books.execute("delete from effect")
        self._books.executemany(
            "insert into effect values (?, ?, ?)",
            ((each["job"], each["token"], each["version"]) for each in self._effects()),
        )

    def _effects(self) -> list[dict[str, Any]]:
        return self._database["effect"].find().to_list()


def prove(trial: Trial) -> None:
    kills = 2 if trial.short else 10
    with MongoReplicaSet(NODES) as replica_set:
        place = MongoPlace(replica_set.url("proof"))
        try:
            _kill_primaries(trial, replica_set, place, kills)
        finally:
            place.close()


def _kill_primaries(
    trial: Trial, replica_set: MongoReplicaSet, place: MongoPlace, kills: int
) -> None:
    with herd(trial, place, lease_for=5.0, concurrency=10) as workers:
        for _ in range(WORKERS):
            workers.spawn()
        workers.produce(_chains, backlog=300)
        trial.check(workers.wait_for_progress(30) is not None, "nothing was done to begin with")
        resumed: list[float] = []
        for _ in range(kills):
            _work(workers)
            primary = replica_set.primary()
            primary.kill()
            seconds = workers.wait_for_progress(RESUMED)
            if trial.check(seconds is not None, f"nothing was done {RESUMED:.0f} s after a kill"):
                resumed.append(round(seconds or 0.0, 1))
                trial.say(f"primary killed: work resumed after {resumed[-1]} s")
            primary.start()
            replica_set.wait_until_healthy()
        workers.drain(120)
        alive = len(workers.pids)
        workers.stop()
        workers.balance("books")
    trial.figure("primaries killed", kills)
    trial.figure("work resumed after s", resumed)
    trial.figure("workers that lived through it", alive)
    trial.figure("sequences acknowledged", len(workers.ledger.ids))
    trial.figure("starts not answered", workers.ledger.refused)


def _chains(work: Work) -> list[Request[int]]:
    return [work.chain.request(LENGTH - 1, 0.02) for _ in range(4)]


def _work(workers: Herd) -> None:
    until = time.monotonic() + LOAD
    while time.monotonic() < until:
        workers.look()
        time.sleep(0.1)
