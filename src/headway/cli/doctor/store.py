"""Checks of the store, its schema, and whether workers run its jobs within limits and fire its
schedules."""

from __future__ import annotations

import shlex
import time

from headway.app import Headway
from headway.cli.doctor.findings import fail, ok, warn
from headway.cli.doctor.limits import examine_limits, waits_for_permits
from headway.cli.doctor.postgres import examine_postgres
from headway.cli.doctor.schedules import examine_schedules
from headway.cli.doctor.sqlite import examine_sqlite
from headway.cli.json_results import Diagnosis
from headway.cli.target import command_line
from headway.domain.text import moment, plural, span
from headway.domain.views import Count, QueueSummary, ShownState, TypeSummary, WorkerSummary
from headway.errors import HeadwayError
from headway.ports.admin import Questions

SKEW = 1.0
"""Seconds by which two clocks may differ."""
LONG_WAIT = 300.0
"""Seconds after which a due job has waited too long."""
NONE = Count(0)


async def examine_store(app: Headway) -> list[Diagnosis]:
    name = app.store.name
    try:
        steps = await app.store.migration_status()
    except HeadwayError as error:
        return [fail("store", str(error), "No other check is possible before it answers.")]
    found = [ok("store", f"{name} answers")]
    missing = [step.name for step in steps if step.applied_at is None]
    if missing:
        return [
            *found,
            fail(
                "schema", f"{', '.join(missing)} is missing", f"Run: {command_line('migrate up')}"
            ),
        ]
    found.append(ok("schema", f"up to date, {steps[-1].name}" if steps else "none is needed"))
    async with app:
        found.append(await _clock(app))
        kind = type(app.store).__module__
        if kind.startswith("headway.stores.postgres"):
            found += await examine_postgres(app)
        elif kind.startswith("headway.stores.sqlite"):
            found += await examine_sqlite(app)
        elif not app.store.capabilities.durable:
            found.append(
                warn(
                    "durability",
                    "jobs are kept in this process and end with it",
                    "Use sqlite:///jobs.db or postgresql://… for jobs that matter.",
                )
            )
        found += await _examine_staged_jobs(app)
        found += await _examine_work(app.questions)
        found += await examine_schedules(app.questions)
    return found


async def _clock(app: Headway) -> Diagnosis:
    sent = time.time()
    there = await app.store.run(app.store.time)
    skew = (sent + time.time()) / 2 - there.timestamp()
    if abs(skew) < SKEW:
        return ok("clock", f"this machine and the store agree within {span(SKEW)}")
    ahead = "ahead of" if skew > 0 else "behind"
    return warn(
        "clock",
        f"this machine is {span(abs(skew))} {ahead} the store",
        "Jobs go by the store's clock, so nothing breaks; but times given with At(…) and --at are "
        "off. Synchronise the clocks.",
    )


async def _examine_staged_jobs(app: Headway) -> list[Diagnosis]:
    transfer = app.store.transfer
    if transfer is None or not await app.store.run(transfer.staged_batches, 1):
        return []
    return [
        warn(
            "move",
            "jobs are on their way from another store, and do not run meanwhile",
            "If no headway move is running, it was interrupted: run the same command again.",
        )
    ]


async def _examine_work(questions: Questions) -> list[Diagnosis]:
    workers, types, queues = (
        await questions.workers(),
        await questions.types(),
        await questions.queues(),
    )
    failed = (await questions.overview(minutes=1)).states.get(ShownState.FAILED, NONE)
    return [
        *_workers(workers, types),
        *(_types(types) if any(each.alive for each in workers) else ()),
        *_queues(queues),
        *examine_limits(queues, working=any(each.alive for each in workers)),
        (
            warn(
                "dead letters",
                f"{plural(failed.value, 'job')} failed for good",
                f"Look at them with: {command_line('jobs list state:failed')}",
            )
            if failed.value
            else ok("dead letters", "none")
        ),
    ]


def _workers(workers: list[WorkerSummary], types: list[TypeSummary]) -> list[Diagnosis]:
    alive = [each for each in workers if each.alive]
    waiting = sum(each.states.get(ShownState.PENDING, NONE).value for each in types)
    found: list[Diagnosis] = []
    if alive:
        found.append(ok("workers", f"{len(alive)} alive"))
    elif waiting:
        found.append(
            fail(
                "workers",
                f"none is alive, with {plural(waiting, 'due job')} waiting",
                f"Run: {command_line('worker', runs_code=True)}",
            )
        )
    else:
        found.append(ok("workers", "none is alive, and no job is due"))
    found += [
        warn(
            "workers",
            f"{each.worker.id} sent its last heartbeat {span(each.seen_ago)} ago, without stopping",
            "It was killed, is frozen or cannot reach the store; its jobs come back by themselves.",
        )
        for each in workers
        if not each.alive
    ]
    full = [each for each in alive if each.worker.running >= each.worker.concurrency]
    if alive and len(full) == len(alive) and waiting:
        found.append(
            warn(
                "workers",
                "all slots of all workers are busy, and jobs wait",
                "Start more workers, or raise --concurrency for handlers that wait.",
            )
        )
    return found


def _types(types: list[TypeSummary]) -> list[Diagnosis]:
    lost = [
        each.name
        for each in types
        if not each.implemented and each.states.get(ShownState.PENDING, NONE).value
    ]
    if not lost:
        return [ok("job types", "every type that waits is run by some worker, or none waits")]
    return [
        warn(
            "job types",
            f"no living worker runs {', '.join(lost[:10])}, and such jobs are due",
            "Start a worker with the code that has them, or cancel those jobs.",
        )
    ]


def _queues(queues: list[QueueSummary]) -> list[Diagnosis]:
    found: list[Diagnosis] = []
    for queue in queues:
        waiting = queue.states.get(ShownState.PENDING, NONE).value
        if queue.paused_at is not None and waiting:
            found.append(
                warn(
                    "queues",
                    f"{queue.name} is paused since {moment(queue.paused_at)}, "
                    f"with {plural(waiting, 'due job')} waiting",
                    f"Run: {command_line(f'queues resume {shlex.quote(queue.name)}')}",
                )
            )
        elif (
            queue.oldest_waiting is not None
            and queue.oldest_waiting > LONG_WAIT
            and not waits_for_permits(queue)
        ):
            found.append(
                warn(
                    "queues",
                    f"the oldest due job of {queue.name} waits for {span(queue.oldest_waiting)}",
                    f"Run more workers for this queue, or see why with: {command_line('why ID')}",
                )
            )
    return found or [ok("queues", "no job waits for long")]
