"""The job types of the simulation: between them they use all that a handler may ask for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from headway import After, Backoff, Continuation, Job, Unrecoverable
from headway.jobs.codec import JsonCodec
from headway.jobs.decorators import JobDecorator
from headway.jobs.registry import Registry
from proof.simulation.loop import PROCESS
from proof.simulation.world import World, current_world

codec = JsonCodec()
registry = Registry()
job_type = JobDecorator(registry, codec)(max_attempts=6, retry=Backoff(base=0.5, cap=30.0))


@contextmanager
def _running(job: Job[*tuple[Any, ...]]) -> Generator[World]:
    """Says in the world's books that this handler runs."""
    world = current_world()
    key = job.id, job.lease.version
    process = PROCESS.get()
    assert process is not None
    world.runs[key] = process
    world.executions += 1
    try:
        yield world
    finally:
        if not process.dead:
            world.runs.pop(key, None)


async def _complete(job: Job, world: World) -> Any:
    """From here on it is the row's lock that keeps others away, not the lease: a handler whose
    lease has run out is refused by this, and one that was not may take its time."""
    world.runs.pop((job.id, job.lease.version), None)
    return await job.complete()


async def _work(world: World) -> None:
    """Take a while, sometimes longer than a lease; fail now and then."""
    lease = world.scenario.lease
    await asyncio.sleep(random.choice((0.0, 0.01, 0.1, 0.1, lease / 2, lease * 1.5)))
    if "failures" in world.scenario.features and not world.healed:
        chance = random.random()
        if chance < 0.08:
            raise ValueError("it failed")
        if chance < 0.1:
            raise Unrecoverable("it will never work")
        if chance < 0.11:
            await asyncio.sleep(lease * 4)


@job_type
async def plain(job: Job, number: int) -> int:
    with _running(job) as world:
        await _work(world)
    return number


@job_type(queue="effects", timeout=6.0)
async def effect(job: Job, number: int) -> int:
    """Writes a row of its own in the transaction that completes it."""
    with _running(job) as world:
        await _work(world)
        tx = await _complete(job, world)
        tx.data[f"effect/{job.id}/{job.lease.version}"] = number
        await asyncio.sleep(random.choice((0.0, 0.02, world.scenario.lease * 1.2)))
        if random.random() < 0.05 and not world.healed:
            raise ValueError("it failed after the effect")
    return number


@job_type(queue="effects", atomic=True)
async def whole(job: Job, number: int) -> int:
    """The same in one transaction from beginning to end."""
    with _running(job) as world:
        world.runs.pop((job.id, job.lease.version), None)  # it holds the row's lock
        job.tx.data[f"effect/{job.id}/{job.lease.version}"] = number
        await _work(world)
    return number


@job_type
async def chain(job: Job, left: int) -> Continuation[int] | int:
    """Goes on with another of its kind, through the committer or in a transaction of its own."""
    with _running(job) as world:
        await _work(world)
        if left == 0:
            return job.position
        if random.random() < 0.3:
            tx = await _complete(job, world)
            tx.data[f"effect/{job.id}/{job.lease.version}"] = left
        if random.random() < 0.2:
            return job.continue_with(
                joined.request(left).using(blockers=[plain.request(1), chain.request(1)])
            )
        return job.continue_with(chain.request(left - 1))


@job_type
async def joined(job: Job[*tuple[int, ...]], number: int) -> int:
    """Waits for others."""
    with _running(job) as world:
        await _work(world)
    return number + sum(job.blockers)


@job_type
async def patient(job: Job, times: int) -> int:
    """Asks to be run again later, and makes sure of its lease."""
    with _running(job) as world:
        await _work(world)
        await job.heartbeat()
        if job.created_at + world.patience > world.store_time() and random.random() < 0.7:
            job.reschedule(After(seconds=random.random()))
    return times
