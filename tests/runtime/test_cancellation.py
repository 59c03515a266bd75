"""A cancellation reaches its target, at whatever moment it comes.

`asyncio.wait_for` of Python 3.11, which drivers use, drops one that comes when the answer is there
but has not been picked up. That moment is a matter of chance, so it is made here: an event loop
cancels a task a given number of steps after a given answer of the server has arrived.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from headway import Headway
from headway.domain.job import JobState
from tests.support.stores import store_urls

ANSWERS, STEPS = 4, 8
"""Up to which answer of the server, and up to how many steps of the loop after it."""
MANY = 16
"""As many calls as there are connections, or more."""
SOON = 30.0
"""Seconds in which a cancelled task ends, also on a busy machine."""


class _Selector(selectors.DefaultSelector):
    """Calls somebody whenever something has arrived."""

    arrived: Callable[[], None] | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(timeout)
        if found and self.arrived is not None:
            self.arrived()
        return found


async def cancelled_at(
    work: Coroutine[Any, Any, Any], selector: _Selector, answer: int, steps: int
) -> None:
    """Cancel it so many steps after so many answers: it must end."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    seen = 0

    def arrived() -> None:
        nonlocal seen
        seen += 1
        if seen == answer:
            later(steps)

    def later(left: int) -> None:
        if left:
            loop.call_soon(later, left - 1)
        else:
            task.cancel()

    selector.arrived = arrived
    try:
        done, _ = await asyncio.wait({task}, timeout=SOON)
        assert done, f"a cancel {steps} steps after answer {answer} was lost"
        assert task.cancelled() or not task.cancelling()
    finally:
        selector.arrived = None
        task.cancel()
        await asyncio.wait({task}, timeout=SOON)


def moments() -> Iterator[tuple[int, int]]:
    for answer in range(1, ANSWERS + 1):
        for steps in range(STEPS + 1):
            yield answer, steps


def run(main: Callable[[_Selector], Coroutine[Any, Any, None]]) -> None:
    selector = _Selector()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(main(selector))


store_url = store_urls("postgres", "mongodb")


def make_app(url: str) -> tuple[Headway, Any]:
    app = Headway(url, migrate=True, notifier="none")

    @app.job
    async def never() -> None: ...

    return app, never


pytestmark = pytest.mark.usefixtures("dropped_sockets")


def test_waiting_for_a_result_can_always_be_cancelled(store_url: str) -> None:
    async def main(selector: _Selector) -> None:
        app, never = make_app(store_url)
        async with app:
            sequence = await app.start(never.request())
            for answer, steps in moments():
                await cancelled_at(sequence.result(), selector, answer, steps)

    run(main)


def test_a_transaction_that_is_cancelled_is_rolled_back(store_url: str) -> None:
    async def main(selector: _Selector) -> None:
        app, never = make_app(store_url)

        async def work() -> None:
            async with app.store.begin() as tx:
                while True:
                    await app.start(never.request(), tx=tx)

        async with app:
            for answer, steps in moments():
                await cancelled_at(work(), selector, answer, steps)
            assert await app.counts() == []

    run(main)


def test_the_connections_of_cancelled_calls_are_given_back(store_url: str) -> None:
    async def main(selector: _Selector) -> None:
        app, never = make_app(store_url)
        async with app:
            sequence = await app.start(never.request())
            for answer, steps in moments():
                async with asyncio.TaskGroup() as others:
                    for _ in range(MANY):
                        others.create_task(app.get(sequence))
                    work = _for_ever(lambda: app.get(sequence))
                    await cancelled_at(work, selector, answer, steps)
            assert (await app.get(sequence)).state is JobState.PENDING

    run(main)


async def _for_ever(ask: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    while True:
        await ask()
