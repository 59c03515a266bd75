"""Checks of permits that are freed: who is woken for them."""

from __future__ import annotations

import asyncio
import time

from headway import Headway
from headway.notifiers.local import LocalNotifier
from headway.stores.memory import MemoryStore
from proof.mutants.checks import until

BUSY = 3.3
"""Seconds that a permit is in use. An idle worker polls after 2.8 seconds at the latest, and then
not within the next two."""
WOKEN = 1.0
POLL = 60.0


def freed_permit(dsn: str) -> str | None:
    """A worker frees a permit and has no slot for the next job: another worker is woken."""
    return asyncio.run(_free(["first", "narrow"], other_type=False))


def left_permit(dsn: str) -> str | None:
    """A worker frees a permit and can run none of the waiting jobs: another worker is woken."""
    return asyncio.run(_free(["narrow"], other_type=True))


async def _free(queues: list[str], *, other_type: bool) -> str | None:
    store, notifier = MemoryStore(), LocalNotifier()
    ours, theirs = Headway(store, notifier=notifier), Headway(store, notifier=notifier)
    began: dict[str, float] = {}
    for app in (ours, theirs):
        app.queue("narrow", running=1)

    async def work(name: str, seconds: float) -> None:
        began[name] = time.monotonic()
        await asyncio.sleep(seconds)
        began[f"after {name}"] = time.monotonic()

    own = ours.job(name="own")(work)
    other = theirs.job(name="other" if other_type else "own")(work)
    async with ours, theirs:
        slots = 5 if other_type else 1
        first = ours.worker(concurrency=slots, queues=queues, poll_every=POLL, grace=0.0)
        second = theirs.worker(concurrency=5, queues=["narrow"], poll_every=POLL)
        await ours.start(own.request("first", BUSY), queue="narrow")
        await first.start()
        await until(lambda: "first" in began)
        await second.start()
        await theirs.start(other.request("second", 0.0), queue="narrow")
        if "first" in queues:
            await ours.start(own.request("third", 2 * BUSY), queue="first")
        await until(lambda: "second" in began)
        await first.stop()
        await second.stop()
    waited = began["second"] - began["after first"]
    return f"a freed permit was used after {waited:.1f} s" if waited > WOKEN else None
