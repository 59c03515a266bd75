"""Queue names that nobody uses are probably typing errors."""

from __future__ import annotations

from datetime import datetime
from difflib import get_close_matches

from headway.domain.queries import is_alive
from headway.jobs.registry import Registry
from headway.ports.store import Store


async def unknown_queue(
    store: Store, registry: Registry, name: str, *, workers: bool = True, now: datetime | None
) -> str | None:
    """A sentence if no job type, no declaration of a schedule or limits, no job and (if `workers`
    count) no living worker uses a queue of this name; with the closest name in use."""
    known = {type_.options.queue for type_ in registry}
    known |= registry.queues().keys()
    known |= {schedule.job.queue for schedule in registry.schedules().values()}
    if name in known:
        return None
    known |= {tally.queue for tally in await store.run(store.tally, now=now)}
    if workers:
        present = await store.run(store.time, now=now)
        living = [each for each in await store.run(store.workers) if is_alive(each, present)]
        known |= {queue for worker in living for queue in worker.queues}
    if name in known:
        return None
    users = "job, worker or job type uses" if workers else "job or job type uses"
    near = get_close_matches(name, sorted(known), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"no {users} queue {name}{hint}"
