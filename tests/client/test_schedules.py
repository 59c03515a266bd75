"""`app.schedules` beside the schedules that the app's own code declares."""

from __future__ import annotations

import pytest

from headway import Every, Headway
from headway.admin.queue_names import unknown_queue
from headway.errors import InvalidRequest, ScheduleNotFound


@pytest.fixture
def app() -> Headway:
    app = Headway("memory://")

    @app.job
    async def report() -> None: ...

    app.schedule("vat", Every(hours=1), report.request().using(queue="reports"))
    return app


async def test_a_declared_name_cannot_be_put_before_a_worker_has_stored_it(app: Headway) -> None:
    async with app:
        with pytest.raises(InvalidRequest, match="schedule 'vat' is declared in code"):
            await app.schedules.put("vat", Every(hours=2), app.request("report"))
        assert await app.schedules.list() == []


async def test_a_declared_schedule_that_no_worker_has_stored_yet(app: Headway) -> None:
    async with app:
        for verb in (app.schedules.get, app.schedules.trigger, app.schedules.pause):
            with pytest.raises(ScheduleNotFound, match="is declared, and not stored yet: a worker"):
                await verb("vat")
        with pytest.raises(ScheduleNotFound, match="there is no schedule 'other'"):
            await app.schedules.get("other")
    with pytest.raises(ScheduleNotFound, match="not stored yet"):
        app.sync.schedules.get("vat")
    app.sync.close()


async def test_workers_serve_the_queues_of_declared_schedules(app: Headway) -> None:
    async with app:
        assert app.worked_queues() == ("default", "reports")
        assert await unknown_queue(app.store, app.registry, "reports", now=None) is None
        assert await unknown_queue(app.store, app.registry, "report", now=None) is not None
