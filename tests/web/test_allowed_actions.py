"""Which action a state allows is the same for the table of rules, the engine, the API and a job's
page."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from headway import After
from headway.domain.job import JobState
from headway.domain.lifecycle import ALLOWED, offered_actions
from headway.domain.views import JobAction, ShownState
from headway.errors import WrongState
from tests.web.shop import Shop

EACH = len(JobAction) + 1
"""Jobs in each state: one for each action, and one that the client retries."""


@asynccontextmanager
async def jobs_in_every_state(shop: Shop) -> AsyncIterator[dict[ShownState, list[str]]]:
    app = shop.app
    found: dict[ShownState, list[str]] = {ShownState.FAILED: await shop.fail(EACH)}

    async def started(*, scheduled: bool = False) -> list[str]:
        schedule = After(minutes=5) if scheduled else After()
        request = shop.greet.request("ada").using(schedule=schedule)
        return [each.id for each in await app.start_many([request] * EACH)]

    found[ShownState.COMPLETED] = await started()
    await app.worker(queues=["mail"]).run(drain=True)
    found[ShownState.CANCELLED] = await started()
    await app.cancel(found[ShownState.CANCELLED])
    found[ShownState.PENDING] = await started()
    found[ShownState.SCHEDULED] = await started(scheduled=True)
    found[ShownState.BLOCKED] = [
        (await app.start(shop.ship.request(n).using(blockers=(shop.charge.request(n),)))).id
        for n in range(EACH)
    ]
    running = [(await app.start(shop.resize.request(f"{n}.png"))).id for n in range(EACH)]
    found[ShownState.RUNNING] = running
    worker = app.worker(queues=["media"], concurrency=EACH)
    working = asyncio.create_task(worker.run())
    try:
        while {(await app.get(id)).state for id in running} != {JobState.RUNNING}:
            await asyncio.sleep(0.02)
        yield found
    finally:
        shop.go_on.set()
        worker.request_stop()
        await working


async def test_every_action_in_every_state(shop: Shop, client: httpx.AsyncClient) -> None:
    async with jobs_in_every_state(shop) as found:
        for shown, (spare, *ids) in found.items():
            state = JobState.PENDING if shown is ShownState.SCHEDULED else JobState(shown.value)
            page = await client.get(f"/jobs/{spare}")
            buttons = re.findall(r'id="action-(\w+)"', page.text)
            assert buttons == [str(action) for action in offered_actions(shown)], shown
            for action, id in zip(JobAction, ids, strict=True):
                body = {"action": action, "ids": [id]}
                answer = await client.post("/api/v1/jobs/act", json=body)
                changed = answer.json()["changed"] == 1
                assert changed is (state in ALLOWED[action]), (shown, action)
                assert changed or action not in offered_actions(shown), (shown, action)
            try:
                await shop.app.retry(spare)
                retried = True
            except WrongState:
                retried = False
            assert retried is (state in ALLOWED[JobAction.RETRY]), shown


async def test_a_cancelled_job_can_be_retried(shop: Shop, client: httpx.AsyncClient) -> None:
    sequence = await shop.app.start(shop.greet.request("ada"))
    await shop.app.cancel(sequence.id)
    page = await client.get(f"/jobs/{sequence.id}")
    assert re.findall(r'id="action-(\w+)"', page.text) == ["retry", "delete"]
