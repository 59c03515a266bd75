"""Part poison: a job that kills its worker, one that eats its memory and a row that cannot be read,
among good ones. Only these may end as dead letters, and each says why."""

from __future__ import annotations

import asyncio
import tempfile

from proof.tools.databases import Database, PostgresDatabase, SqliteDatabase
from proof.tools.part_run import PartRun
from proof.tools.work import Work
from proof.tools.worker_group import worker_group
from tests.support.servers.postgres import PostgresServer

GOOD = 500
WORKERS = 2
MEMORY = 3 << 29
"""Bytes of address space that a worker has."""


def prove(run: PartRun) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _try(run, SqliteDatabase(f"{folder}/proof.db"))
    with PostgresServer() as server:
        _try(run, PostgresDatabase(server.url(server.create_database())))


def _try(run: PartRun, database: Database) -> None:
    with worker_group(run, database, lease_for=1.0, concurrency=5, memory=MEMORY) as workers:
        good, poison = asyncio.run(_start(database.dsn))
        broken = '{{"number": '
        database.ask(
            "update {job} set input = '" + broken + "' where id = %s", (poison["corrupt"],)
        )
        workers.keep_up(WORKERS)
        workers.drain(60, workers=WORKERS)
        workers.stop()
        rows = database.ask("select cast(id as text), state, last_error from {job}")
    found = {row[0]: row[1:] for row in rows}
    failed = {id for id, (state, _) in found.items() if state == "failed"}
    reasons = {"die": "LeaseLost", "eat": "MemoryError", "corrupt": "headway.errors.InvalidPayload"}
    for name, reason in reasons.items():
        state, error = found[poison[name]]
        said = state == "failed" and f'"{reason}"' in (error or "")
        run.check(said, f"{database.kind}: {name} is {state}: {error}")
    others = failed - set(poison.values())
    run.check(not others, f"{database.kind}: {len(others)} good jobs were dead-lettered")
    done = [id for id in good if found.get(id, ("",))[0] == "completed"]
    run.check(len(done) == GOOD, f"{database.kind}: {len(done)} of {GOOD} good jobs completed")
    run.figure(f"{database.kind}: dead letters", len(failed))
    run.figure(f"{database.kind}: good jobs completed", len(done))


async def _start(dsn: str) -> tuple[list[str], dict[str, str]]:
    work = Work(dsn)
    async with work.app as app:
        first = await app.start_many([work.good.request(n) for n in range(GOOD // 2)])
        poison = {
            "die": (await app.start(work.die.request())).id,
            "eat": (await app.start(work.eat.request())).id,
            "corrupt": (await app.start(work.good.request(0))).id,
        }
        rest = await app.start_many([work.good.request(n) for n in range(GOOD // 2)])
    return [sequence.id for sequence in (*first, *rest)], poison
