"""Part poison: a job that kills its worker, one that eats its memory and a row that cannot be read,
among good ones. Only these may end as dead letters, and each says why."""

from __future__ import annotations

import asyncio
import tempfile

from proof.tools.databases import Place, PostgresPlace, SqlitePlace
from proof.tools.report import Trial
from proof.tools.work import Work
from proof.tools.worker_group import herd
from tests.support.servers.postgres import PostgresServer

GOOD = 500
WORKERS = 2
MEMORY = 3 << 29
"""Bytes of address space that a worker has."""


def prove(trial: Trial) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _try(trial, SqlitePlace(f"{folder}/proof.db"))
    with PostgresServer() as server:
        _try(trial, PostgresPlace(server.url(server.create_database())))


def _try(trial: Trial, place: Place) -> None:
    with herd(trial, place, lease_for=1.0, concurrency=5, memory=MEMORY) as workers:
        good, poison = asyncio.run(_start(place.dsn))
        broken = '{{"number": '
        place.ask("update {job} set input = '" + broken + "' where id = %s", (poison["corrupt"],))
        workers.keep_up(WORKERS)
        workers.drain(60, workers=WORKERS)
        workers.stop()
        rows = place.ask("select cast(id as text), state, last_error from {job}")
    found = {row[0]: row[1:] for row in rows}
    failed = {id for id, (state, _) in found.items() if state == "failed"}
    reasons = {"die": "LeaseLost", "eat": "MemoryError", "corrupt": "InvalidPayload"}
    for name, reason in reasons.items():
        state, error = found[poison[name]]
        said = state == "failed" and f'"{reason}"' in (error or "")
        trial.check(said, f"{place.kind}: {name} is {state}: {error}")
    others = failed - set(poison.values())
    trial.check(not others, f"{place.kind}: {len(others)} good jobs were dead-lettered")
    done = [id for id in good if found.get(id, ("",))[0] == "completed"]
    trial.check(len(done) == GOOD, f"{place.kind}: {len(done)} of {GOOD} good jobs completed")
    trial.figure(f"{place.kind}: dead letters", len(failed))
    trial.figure(f"{place.kind}: good jobs completed", len(done))


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
