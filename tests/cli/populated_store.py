"""A store with jobs in every state, made as users make them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from headway import After, Continuation, Fixed, Headway, Job, Unrecoverable


@dataclass(frozen=True)
class Populated:
    """Ids of jobs, by what became of them."""

    completed: str
    failed: str
    scheduled: str
    pending: str
    blocked: str
    blocker: str
    cancelled: str
    sequence: str


def make_app(dsn: str) -> Headway:
    app = Headway(dsn, migrate=True)

    @app.job
    async def charge(order_id: int, note: str = "") -> str:
        return f"receipt-{order_id}{note}"

    @app.job(max_attempts=2, retry=Fixed(0), queue="tax")
    async def report(order_id: int, note: str = "") -> str:
        raise RuntimeError(f"the tax office is closed for {order_id}{note}")

    @app.job
    async def place(job: Job, order_id: int) -> Continuation[str]:
        return job.continue_with(charge.request(order_id))

    @app.job(queue="mail")
    async def letter(job: Job[str], order_id: int) -> str:
        return job.blockers[0]

    @app.job
    async def refuse() -> None:
        raise Unrecoverable("no")

    return app


def populate(dsn: str) -> Populated:
    return asyncio.run(_populate(make_app(dsn)))


async def _populate(app: Headway) -> Populated:
    request: Any = app.request
    async with app:
        completed = await app.start(request("charge", order_id=7))
        failed = await app.start(request("report", order_id=8))
        scheduled = await app.start(request("charge", order_id=9), schedule=After(hours=1))
        cancelled = await app.start(request("charge", order_id=10), schedule=After(hours=1))
        sequence = await app.start(request("place", order_id=11))
        blocker = await app.start(request("report", order_id=12))
        blocked = await app.start(request("letter", order_id=12).using(blockers=(blocker,)))
        await app.cancel(cancelled)
        await app.worker().run(drain=True)
        pending = await app.start(request("charge", order_id=13), queue="nobody")
    return Populated(
        completed=completed.id,
        failed=failed.id,
        scheduled=scheduled.id,
        pending=pending.id,
        blocked=blocked.id,
        blocker=blocker.id,
        cancelled=cancelled.id,
        sequence=sequence.id,
    )
