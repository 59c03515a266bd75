"""An app with a few job types, for tests of the client."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headway import Continuation, Headway, Job
from headway.domain.events import Event
from headway.domain.orders import ClaimOrder, QueueShare
from headway.domain.settlement import Complete, Fail
from headway.jobs.ids import new_id
from headway.notifiers.local import LocalNotifier
from headway.ports.notifications import EVERYTHING, Interest, Notification
from headway.ports.notifier import Disposer, Listener


@dataclass
class Receipt:
    number: int


class Ear(LocalNotifier):
    """Remembers all notifications."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[Notification] = []
        self.listening = asyncio.Event()

    async def subscribe(
        self, listener: Listener, interest: Interest = EVERYTHING, **others: Any
    ) -> Disposer:
        dispose = await super().subscribe(listener, interest, **others)
        self.listening.set()
        return dispose

    def publish_soon(self, notifications: Sequence[Notification]) -> None:
        self.heard += notifications
        super().publish_soon(notifications)


class Shop:
    def __init__(self, store: Any, **settings: Any) -> None:
        self.ear = Ear()
        self.events: list[Event] = []
        self.app = app = Headway(store, notifier=self.ear, observers=[self], **settings)

        @app.job(queue="money")
        async def charge(order_id: int, cents: int = 5) -> Receipt:
            return Receipt(order_id + cents)

        @app.job
        async def ship(job: Job[Receipt], order_id: int) -> str:
            return str(job.blockers)

        @app.job
        async def place(job: Job, order_id: int) -> Continuation[Receipt]:
            return job.continue_with(charge.request(order_id))

        @app.job(entry=False)
        async def confirm(job: Job, order_id: int) -> Receipt:
            return Receipt(order_id)

        @app.job(entry=False)
        async def confirm_blocked(job: Job[Receipt], order_id: int) -> Receipt:
            return job.blockers[0]

        self.charge, self.ship, self.place = charge, ship, place
        self.confirm, self.confirm_blocked = confirm, confirm_blocked

    def observe(self, event: Event) -> None:
        self.events.append(event)

    async def claim(self, *queues: str) -> list[Any]:
        """As a worker would."""
        order = ClaimOrder(
            worker="tester",
            token=new_id(),
            lease_for=30,
            queues=tuple(QueueShare(queue, 100) for queue in queues or ("default", "money")),
            types=tuple(self.app.registry.handlers()),
            limit=100,
        )
        return await self.app.store.run(self.app.store.claim, order)

    async def work(self, output: str | None) -> int:
        """Complete all that is due with this output."""
        store = self.app.store
        jobs = await self.claim()
        done = [Complete(job.id, job.lease.token, output) for job in jobs]
        await store.run(store.settle, done)
        return len(jobs)

    async def fail(self, error: str) -> None:
        """Dead-letter all that is due."""
        store = self.app.store
        failed = [Fail(job.id, job.lease.token, error) for job in await self.claim()]
        await store.run(store.settle, failed)
