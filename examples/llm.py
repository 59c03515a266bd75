"""Calls of a language model for several tenants, by two workers: within the tokens and the requests
that the service allows, in turn, and with a pause when the service asks for one.
Run it: `python examples/llm.py`
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from headway import After, Headway, Job, Rate, Unrecoverable

FOLDER = Path(tempfile.mkdtemp(prefix="headway-llm-"))
app = Headway(f"sqlite:///{FOLDER}/llm.db")

TOKENS, REQUESTS, SECONDS = 2_000, 25, 1  # of a real service: 200_000, 500, 60
app.queue(
    "llm",
    rate=Rate(TOKENS, per=SECONDS),  # in tokens, see `job.spent`
    running=4,  # their tokens are not known yet
    per_key=2,  # of one tenant
    fair=True,  # tenants take turns
)


class TooManyRequests(Exception):
    def __init__(self, retry_after: str | None) -> None:
        self.retry_after = retry_after
        super().__init__(f"429, Retry-After: {retry_after}")


class Service:
    """Stands for the service. It asks for one pause, because others use the same account."""

    def __init__(self) -> None:
        self.begun: list[float] = []
        self.used: list[tuple[float, int]] = []
        self.running: Counter[str] = Counter()
        self.most_running = self.most_of_one = 0
        self.paused_at = 0.0

    async def complete(self, tenant: str, prompt: str) -> tuple[str, int]:
        """The answer, and the tokens that it took."""
        self.begun.append(time.monotonic())
        if len(self.begun) == 10:
            self.paused_at = time.monotonic()
            raise TooManyRequests("1")
        self.running[tenant] += 1
        self.most_running = max(self.most_running, self.running.total())
        self.most_of_one = max(self.most_of_one, *self.running.values())
        await asyncio.sleep(0.02)
        self.running[tenant] -= 1
        tokens = 40 + 10 * len(prompt)
        self.used.append((time.monotonic(), tokens))
        return f"answer to {prompt}", tokens

    def most_tokens(self) -> int:
        """In any window of the rate."""
        return max(
            sum(tokens for at, tokens in self.used if end - SECONDS < at <= end)
            for end, _ in self.used
        )

    def most_requests(self) -> int:
        return max(sum(end - SECONDS < at <= end for at in self.begun) for end in self.begun)


service = Service()
finished: list[str] = []


@app.job(queue="llm", key="tenant", timeout=120, max_attempts=5)
async def ask(job: Job, tenant: str, prompt: str) -> str:
    try:
        answer, tokens = await service.complete(tenant, prompt)
    except TooManyRequests as error:
        print(f"the service says: {error}")
        if datetime.now(UTC) - job.created_at > timedelta(hours=6):
            raise Unrecoverable("the service refuses, and the job is 6 hours old") from error
        pause = 20.0 if error.retry_after is None else float(error.retry_after)
        job.hold(After(seconds=pause))  # no new call meanwhile
    job.spent(max(tokens, TOKENS // REQUESTS))  # a short answer counts as a request
    finished.append(tenant)
    return answer


async def main() -> None:
    async with app:
        await app.start_many([ask.request("acme", f"prompt {number}") for number in range(30)])
        await app.start_many(
            [
                ask.request(name, f"prompt {number}")
                for number in range(3)
                for name in ("ada", "bob")
            ]
        )
        print("acme asked 30 times; ada and bob, after it, 3 times each")
        workers = [app.worker(), app.worker()]
        await asyncio.gather(*(worker.run(drain=True) for worker in workers))
    under_way = 4 * max(tokens for _, tokens in service.used)
    during_pause = [at for at in service.begun if 0.5 < at - service.paused_at < 1]
    print(f"answers: {len(finished)}, of ada and bob among the first 20: {small(finished[:20])}")
    print(f"at most 4 at once: {service.most_running <= 4}")
    print(f"at most 2 of one tenant: {service.most_of_one <= 2}")
    print(f"calls begun in the pause: {len(during_pause)}")
    print(f"tokens within bounds: {service.most_tokens() <= TOKENS + under_way}")
    print(f"requests within bounds: {service.most_requests() <= REQUESTS + 4}")


def small(tenants: list[str]) -> int:
    return sum(tenant != "acme" for tenant in tenants)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    finally:
        shutil.rmtree(FOLDER)
