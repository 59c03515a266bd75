"""A memory store with job types, and workers whose events a test can wait for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from headway.domain.events import Event
from headway.domain.job import AttemptRecord, JobRecord, JobState, NewJob
from headway.domain.request import AnyRequest
from headway.domain.retry import Fixed
from headway.jobs.codec import JsonCodec
from headway.jobs.decorators import JobDecorator
from headway.jobs.plan import plan_start
from headway.jobs.registry import Registry
from headway.ports.notifier import Notifier
from headway.ports.store import Store
from headway.stores.memory import MemoryStore
from headway.worker.handler_runner import Middleware
from headway.worker.settings import WorkerSettings
from headway.worker.worker import Worker

PATIENCE = 60.0
AT_ONCE = Fixed(0)

E = TypeVar("E")


class WorkerHarness:
    """Also the observer of its workers."""

    def __init__(self, store: Store | None = None) -> None:
        self.store: Store = MemoryStore() if store is None else store
        self.registry = Registry()
        self.job = JobDecorator(self.registry, JsonCodec())
        self.events: list[Event] = []
        self.middleware: list[Middleware] = []
        self.notifier: Notifier | None = None
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._noticed = False

    def observe(self, event: Event) -> None:
        self.events.append(event)
        if not self._noticed:
            self._noticed = True
            self._loop.call_soon_threadsafe(self._notice)

    def _notice(self) -> None:
        self._noticed = False
        self._changed.set()

    async def start(self, *requests: AnyRequest) -> list[str]:
        """Store jobs; the ids of those asked for."""
        plan = plan_start(requests)
        stored = await self.store.run(self.store.insert, plan.jobs)
        return [stored[head].id for head in plan.heads]

    async def insert(self, job: NewJob) -> str:
        await self.store.run(self.store.insert, [job])
        return job.id

    async def get(self, job_id: str) -> JobRecord:
        (job,) = await self.store.run(self.store.get, [job_id])
        assert job is not None
        return job

    async def state(self, job_id: str) -> JobState:
        return (await self.get(job_id)).state

    async def attempts(self, job_id: str) -> list[AttemptRecord]:
        return await self.store.run(self.store.attempts, job_id)

    def worker(self, **settings: Any) -> Worker:
        settings = {"poll_every": 0.05, "reap_every": 0.05, "grace": 5.0, **settings}
        return Worker(
            self.store,
            self.registry.handlers(),
            WorkerSettings(**settings),
            observers=[self],
            middleware=self.middleware,
            notifier=self.notifier,
        )

    async def drain(self, **settings: Any) -> None:
        """Run all that is due, and what follows from it."""
        async with asyncio.timeout(PATIENCE):
            await self.worker(**settings).run(drain=True)

    @asynccontextmanager
    async def working(self, **settings: Any) -> AsyncIterator[Worker]:
        worker = self.worker(**settings)
        await worker.start()
        try:
            yield worker
        finally:
            async with asyncio.timeout(PATIENCE):
                await worker.stop()

    def seen(self, kind: type[E], **facts: object) -> list[E]:
        """The events of this kind so far that carry these facts."""
        return [
            event
            for event in self.events
            if isinstance(event, kind)
            and all(getattr(event, name) == fact for name, fact in facts.items())
        ]

    async def event(self, kind: type[E], **facts: object) -> E:
        """The first such event, once it has happened."""
        await self.until(lambda: bool(self.seen(kind, **facts)))
        return self.seen(kind, **facts)[0]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until events have made the condition true."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


def types_of(events: Sequence[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for what gives no signal, because another thread or process does it."""
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.005)
