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

from headway.stores.mongodb import MongoStore
from proof.tools.databases import LEFT
from proof.tools.part_run import PartRun
from proof.tools.worker_group import chains, worker_group
from tests.support.servers.mongodb import MongoReplicaSet

NODES = 3
WORKERS = 3
LOAD = 2.0
"""Seconds of work between two kills."""
RESUMED = 30.0
ENDED = ["completed", "failed", "cancelled"]
FIELDS = ("state", "token", "version", "output")


class MongoDatabase:
    """A database as the checker sees it. A change stream tells it of every claim and every end that
    a majority has; claims and ends are copied to SQLite, to be asked like other databases."""

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
        self._copy = sqlite3.connect(":memory:")

    def prepare(self) -> None:
        asyncio.run(MongoStore(self.dsn).migrate())
        self.watch()

    def watch(self) -> None:
        self._database.create_collection("effect")
        self._copy.executescript(
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
        return self._copy.execute(question, parameters).fetchall()

    def close(self) -> None:
        if self._changes is not None:
            self._changes.close()
        self._watcher.close()
        self._client.close()
        self._copy.close()

    def _catch_up(self) -> None:
        """Enter what has happened until now."""
        now = self._client.admin.command("ping")["operationTime"]
        assert self._changes is not None
        while (change := self._changes.try_next()) is not None:
            id = change["documentKey"]["_id"]
            new = change["updateDescription"]["updatedFields"]
            if new.get("state") == "running":
                row = (id, new["token"], new["version"], change["wallTime"].timestamp())
                self._copy.execute("insert into claimed values (?, ?, ?, ?)", row)
            elif new.get("state") in ENDED or "output" in new:
                self._copy.execute("insert into ended values (?, ?)", (id, new.get("state")))
            if change["clusterTime"] > now:
                break

    def _copy_jobs(self) -> None:
        self._copy.execute("delete from job")
        self._copy.executemany(
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
        self._copy.execute("delete from effect")
        self._copy.executemany(
            "insert into effect values (?, ?, ?)",
            ((each["job"], each["token"], each["version"]) for each in self._effects()),
        )

    def _effects(self) -> list[dict[str, Any]]:
        return self._database["effect"].find().to_list()


def prove(run: PartRun) -> None:
    kills = 2 if run.short else 10
    with MongoReplicaSet(NODES) as replica_set:
        database = MongoDatabase(replica_set.url("proof"))
        try:
            _kill_primaries(run, replica_set, database, kills)
        finally:
            database.close()


def _kill_primaries(
    run: PartRun, replica_set: MongoReplicaSet, database: MongoDatabase, kills: int
) -> None:
    with worker_group(run, database, lease_for=5.0, concurrency=10) as workers:
        for _ in range(WORKERS):
            workers.spawn()
        workers.produce(chains(4), backlog=300)
        run.check(workers.wait_for_progress(30) is not None, "nothing was done to begin with")
        resumed: list[float] = []
        for _ in range(kills):
            workers.look_for(LOAD)
            primary = replica_set.primary()
            primary.kill()
            seconds = workers.wait_for_progress(RESUMED)
            if run.check(seconds is not None, f"nothing was done {RESUMED:.0f} s after a kill"):
                resumed.append(round(seconds or 0.0, 1))
                run.say(f"primary killed: work resumed after {resumed[-1]} s")
            primary.start()
            replica_set.wait_until_healthy()
        workers.drain(120)
        alive = len(workers.pids)
        workers.stop()
        workers.check_invariants("invariants")
    run.figure("primaries killed", kills)
    run.figure("work resumed after s", resumed)
    run.figure("workers that lived through it", alive)
    run.figure("sequences acknowledged", len(workers.start_log.ids))
    run.figure("starts not answered", workers.start_log.refused)
