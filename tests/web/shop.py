"""Job types that the dashboard's tests look at."""

from __future__ import annotations

import asyncio

from headway import Continuation, Headway, Job


class Shop:
    """An app with handlers that fail, wait and report when they are told to."""

    def __init__(self, url: str) -> None:
        self.app = app = Headway(url, migrate=True)
        self.broken = True
        self.go_on = asyncio.Event()

        @app.job(max_attempts=1)
        async def charge(order_id: int, cents: int = 100) -> str:
            if self.broken:
                raise TimeoutError(f"the bank did not answer about order {order_id}")
            return f"receipt-{order_id}"

        @app.job(queue="mail")
        async def greet(name: str, password: str = "") -> str:
            return f"hello {name}"

        @app.job(queue="media")
        async def resize(job: Job, image: str) -> None:
            job.progress(0.4, f"resizing {image}")
            await self.go_on.wait()

        @app.job
        async def ship(job: Job[str], order_id: int) -> Continuation[str]:
            return job.continue_with(greet.request(f"buyer of order {order_id}"))

        self.charge, self.greet, self.resize, self.ship = charge, greet, resize, ship

    async def fail(self, count: int) -> list[str]:
        """Start so many jobs that fail for good; their ids."""
        self.broken = True
        started = await self.app.start_many([self.charge.request(i) for i in range(count)])
        await self.app.worker(queues=["default"]).run(drain=True)
        return [sequence.id for sequence in started]
