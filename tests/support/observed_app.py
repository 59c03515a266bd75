"""An app with an observer that keeps all events, and workers that claim only when notified."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from headway import Continuation, Fixed, Headway, Job, Worker
from headway.domain.events import Event, LeaseRenewed
from headway.ports.observer import Observer

PATIENCE = 60.0


class ObservedApp:
    def __init__(self, url: str, observers: Sequence[Observer] = ()) -> None:
        self.url = url
        self.app = app = Headway(url, observers=[self, *observers], migrate=True)
        self.events: list[Event] = []
        self._heard = threading.Event()

        @app.job(queue="letters", retry=Fixed(0))
        async def write(text: str) -> str:
            return text.upper()

        @app.job(max_attempts=2, retry=Fixed(0))
        async def fail() -> None:
            raise ValueError("no ink")

        @app.job
        async def draft(job: Job, text: str) -> Continuation[str]:
            return job.continue_with(write.request(text))

        @app.job
        async def send(job: Job[str]) -> str:
            return job.blockers[0]

        @app.job
        async def hold(seconds: float) -> None:
            await asyncio.sleep(seconds)

        self.write, self.fail, self.draft, self.send, self.hold = write, fail, draft, send, hold

    def observe(self, event: Event) -> None:
        self.events.append(event)
        self._heard.set()

    def worker(self, **settings: Any) -> Worker:
        """Without polling: what it claims it has been told of, so that the order is certain."""
        usual: dict[str, Any] = {
            "poll_every": 30.0,
            "reap_every": 0.05,
            "grace": 5.0,
            "maintain_every": 3600.0,
            "worker_id": "w",
        }
        return self.app.worker(**{**usual, **settings})

    @asynccontextmanager
    async def working(self, **settings: Any) -> AsyncIterator[Worker]:
        worker = self.worker(**settings)
        await worker.start()
        try:
            yield worker
        finally:
            await worker.stop()

    async def until(self, kind: Any, count: int = 1, **facts: object) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.seen(kind, **facts)) < count:
                self._heard.clear()
                if len(self.seen(kind, **facts)) < count:
                    await asyncio.to_thread(self._heard.wait, 0.5)

    def seen(self, kind: Any, **facts: object) -> list[Any]:
        return [
            event
            for event in self.events
            if isinstance(event, kind)
            and all(getattr(event, name) == fact for name, fact in facts.items())
        ]

    def told(self) -> list[tuple[str, ...]]:
        """What was told so far, by name and the type of the job or sequence; without renewals."""
        return [
            (type(event).__name__, *([kind] if (kind := getattr(event, "type", None)) else []))
            for event in self.events
            if not isinstance(event, LeaseRenewed)
        ]
