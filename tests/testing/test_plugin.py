"""The pytest plugin as its users have it: in a pytest of its own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

SHOP = """
import datetime
from headway import After, Continuation, Fixed, Headway, Job

app = Headway("postgresql://nobody@nowhere.invalid/shop")
charged = []


@app.job(retry=Fixed(60))
async def charge(order_id: int, cents: int) -> str:
    charged.append(order_id)
    if cents < 0:
        raise ValueError("less than nothing")
    return f"receipt-{order_id}"


@app.job
async def place(job: Job, order_id: int) -> Continuation[str]:
    await app.start(remind.request(order_id), schedule=After(days=1))
    return job.continue_with(charge.request(order_id, 1999))


@app.job
def remind(order_id: int) -> str:
    return f"reminded of {order_id}"


@app.job
async def settle(job: Job, order_id: int) -> str:
    async with job.prepare():
        pass
    tx = await job.complete()
    await app.start(remind.request(order_id), tx=tx)
    return "settled"
"""

CONFTEST = """
import pytest
from shop import app, charged

@pytest.fixture
def headway_app():
    charged.clear()
    return app
"""


DRAIN_CLOCK_AND_ASSERTS = """
import pytest
from shop import *

async def test_drain(headway):
    assert repr(app) == "<Headway on memory>"
    placed = await app.start(place.request(7))
    await headway.drain()
    assert await placed.result(timeout=1) == "receipt-7"
    job = headway.assert_started(charge.request(7, 1999), times=1)
    assert job.state == "completed"
    headway.assert_started(charge, arguments={"order_id": 7})
    headway.assert_not_started(charge, arguments={"order_id": 8})
    reminder = headway.assert_started(remind)
    assert reminder.state == "pending"
    headway.clock.advance(by=datetime.timedelta(days=1))
    await headway.drain()
    assert (await app.get(reminder.id)).output == '"reminded of 7"'

@pytest.mark.headway(store="sqlite")
async def test_retries(headway):
    failing = await app.start(charge.request(1, -1))
    await headway.drain()
    assert [str(error) for error in headway.raised] == ["less than nothing"]
    await headway.drain()
    assert charged == [1]
    headway.clock.advance(61)
    await headway.drain()
    assert charged == [1, 1]
    assert (await app.get(failing)).attempts == 2

def test_without_a_loop(headway):
    placed = app.sync.start(charge.request(3, 1))
    headway.drain_sync()
    assert placed.result(timeout=1) == "receipt-3"

def test_messages(headway):
    app.sync.start(charge.request(3, 1))
    with pytest.raises(AssertionError, match=r'these were: charge {"order_id":3,"cents":1}'):
        headway.assert_started(charge.request(4, 1))
    with pytest.raises(AssertionError, match="should have been started, and 1 was"):
        headway.assert_started(charge, times=2)
    with pytest.raises(AssertionError, match="no charge should have been started"):
        headway.assert_not_started(charge)
"""

THE_APP_IS_GIVEN_BACK = """
import pytest
from shop import *

def test_before():
    assert "nowhere.invalid" in repr(app)

def test_moved(headway):
    app.sync.start(charge.request(1, 1))

def test_after(headway):
    assert headway.started() == []

def test_back():
    assert "nowhere.invalid" in repr(app)
"""

INLINE = """
import pytest
from shop import *

async def test_a_block(headway):
    with headway.inline():
        await app.start(place.request(7))
        assert charged == [7]
    await app.start(place.request(8))
    assert charged == [7]

@pytest.mark.headway(inline=True, store="sqlite")
async def test_a_whole_test(headway):
    placed = await app.start(settle.request(7))
    assert await placed.result(timeout=1) == "settled"
    assert headway.assert_started(remind.request(7)).state == "completed"

@pytest.mark.headway(inline=True)
def test_without_a_loop(headway):
    placed = app.sync.start(place.request(7))
    assert charged == [7]
    assert placed.result(timeout=1) == "receipt-7"

@pytest.mark.headway(inline=True)
async def test_in_a_transaction(headway):
    async with app.store.begin() as tx:
        await app.start(charge.request(7, 1), tx=tx)
        assert charged == []
    await headway.drain()
    assert charged == [7]
"""

CRASHES = """
import pytest
from shop import *

@pytest.mark.parametrize("store", [
    pytest.param("memory", marks=pytest.mark.headway(store="memory")),
    pytest.param("sqlite", marks=pytest.mark.headway(store="sqlite")),
])
@pytest.mark.parametrize(("point", "begun", "state"), [
    ("claimed", 1, "running"), ("handled", 2, "running"), ("committed", 1, "completed"),
])
async def test_points(headway, store, point, begun, state):
    placed = await app.start(charge.request(7, 1))
    headway.crash_at(point)
    await headway.drain()
    assert headway.crashed
    assert (await app.get(placed)).state == state
    await headway.drain()
    assert not headway.crashed
    assert (await app.get(placed)).state == state
    headway.clock.advance(31)
    await headway.drain()
    assert await placed.result(timeout=1) == "receipt-7"
    assert len(charged) == begun

@pytest.mark.parametrize(("point", "reminders"), [("handled", 0), ("committed", 1)])
async def test_in_the_completing_transaction(headway, point, reminders):
    placed = await app.start(settle.request(7))
    headway.crash_at(point)
    await headway.drain()
    assert len(headway.started(remind)) == reminders
    headway.clock.advance(31)
    await headway.drain()
    assert len(headway.started(remind)) == 1
    assert await placed.result(timeout=1) == "settled"

def test_unknown_points(headway):
    with pytest.raises(ValueError, match="nowhere"):
        headway.crash_at("nowhere")
"""

REPORTS = """
from headway import CatchUp, Cron, Every, Headway, Job, Unrecoverable

app = Headway("postgresql://nobody@nowhere.invalid/reports")
ran = []


@app.job(schedule=Cron("30 2 * * *", tz="Europe/Berlin"))
async def nightly(job: Job) -> None:
    ran.append(("nightly", job.scheduled_for))


@app.job
def report(job: Job, name: str) -> None:
    ran.append((name, job.scheduled_for))
    if name == "bad":
        raise Unrecoverable("no such report")


app.schedule("vat", Every(hours=1), report.request("vat"))
app.schedule("bad", Every(hours=6), report.request("bad"), overlap="queue_one")
"""

SCHEDULES = """
import pytest
from datetime import UTC, datetime, timedelta
from reports import *

def hour(number):
    return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(hours=number)

@pytest.fixture
def headway_app():
    ran.clear()
    return app

on_both = pytest.mark.parametrize("store", [
    pytest.param("memory", marks=pytest.mark.headway(store="memory")),
    pytest.param("sqlite", marks=pytest.mark.headway(store="sqlite")),
])

@on_both
async def test_nothing_fires_by_itself(headway, store):
    assert {each.name for each in await app.schedules.list()} == {"bad", "nightly", "vat"}
    assert await app.workers() == []
    headway.clock.advance(86400)
    assert headway.started() == []

@on_both
async def test_each_tick_of_a_day(headway, store):
    headway.clock.advance(3599)
    await headway.drain()
    assert ran == []
    headway.clock.advance(by=timedelta(days=1))
    await headway.drain()
    assert [tick for name, tick in ran if name == "vat"] == [hour(n) for n in range(1, 25)]
    assert [tick for name, tick in ran if name == "bad"] == [hour(n) for n in (6, 12, 18, 24)]
    assert [tick for name, tick in ran if name == "nightly"] == [hour(1.5)]
    assert (await app.schedules.get("vat")).skipped == 0
    assert headway.assert_started(nightly).scheduled_for == hour(1.5)
    await headway.drain()
    assert len(headway.started(report.request("vat"))) == 24

async def test_an_outage(headway):
    await headway.drain()
    headway.clock.advance(5 * 3600)
    await headway.drain(outage=True)
    assert ran == [("vat", hour(5))]
    assert (await app.schedules.get("vat")).skipped == 4
    assert (await app.schedules.get("nightly")).skipped == 1
    headway.clock.advance(2 * 3600)
    await headway.drain()
    assert sorted(ran[1:]) == [("bad", hour(6)), ("vat", hour(6)), ("vat", hour(7))]

def test_without_a_loop(headway):
    headway.clock.advance(3600)
    headway.drain_sync()
    assert ran == [("vat", hour(1))]
    app.sync.schedules.pause("vat")
    headway.clock.advance(3600)
    headway.drain_sync()
    assert ran == [("vat", hour(1)), ("nightly", hour(1.5))]
    app.sync.schedules.trigger("vat")
    headway.drain_sync()
    assert ran[2:] == [("vat", hour(2))]

async def test_a_crash(headway):
    headway.clock.advance(3600)
    headway.crash_at("handled")
    await headway.drain()
    assert headway.crashed
    assert ran == [("vat", hour(1))]
    headway.clock.advance(31)
    await headway.drain()
    assert not headway.crashed
    assert ran == [("vat", hour(1))] * 2
    assert len(headway.started(report)) == 1
    headway.crash_at("handled")
    await headway.drain()
    assert not headway.crashed
    headway.clock.advance(3600)
    await headway.drain()
    assert not headway.crashed

async def test_a_tick_that_waits_for_a_job_that_never_ends(headway):
    @app.job(max_attempts=None)
    async def stuck(job: Job) -> None:
        ran.append(("stuck", job.scheduled_for))
        raise OSError("not yet")

    await app.schedules.put("one", Every(minutes=1), stuck.request(), overlap="queue_one")
    headway.clock.advance(59)
    await headway.drain()
    headway.clock.advance(3542)
    await headway.drain()
    assert len(headway.started(stuck)) == 1
    record = await app.schedules.get("one")
    assert (record.fired, record.skipped, record.waiting_tick) == (1, 58, hour(1))
    await app.cancel(headway.started(stuck))
    await headway.drain()
    first = hour(0) + timedelta(minutes=1)
    assert [job.scheduled_for for job in headway.started(stuck)] == [first, hour(1)]

async def test_declared_in_the_test(headway):
    await headway.drain()
    headway.clock.advance(60)

    @app.job(schedule=Every(seconds=20))
    async def late(job: Job) -> None:
        ran.append(("late", job.scheduled_for))

    await headway.drain()
    assert len(ran) == 3

async def test_too_many(headway, monkeypatch):
    monkeypatch.setattr("headway.testing.app_under_test.MOST_TICKS", 20)
    headway.clock.advance(by=timedelta(days=1))
    with pytest.raises(ValueError, match="more than 20 ticks"):
        await headway.drain()

@pytest.mark.headway(inline=True)
async def test_inline(headway):
    await app.schedules.trigger("vat")
    assert ran == [("vat", hour(0))]
"""

WITHOUT_AN_APP = """
import pytest

async def test_it(headway):
    @headway.app.job
    async def double(number: int) -> int:
        return 2 * number

    doubled = await headway.app.start(double.request(21))
    await headway.drain()
    assert await doubled.result(timeout=1) == 42

@pytest.mark.headway(where="elsewhere")
def test_a_wrong_marker(headway):
    pass
"""


def test_all_of_it(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    pytester.makepyfile(
        shop=SHOP,
        test_drain=DRAIN_CLOCK_AND_ASSERTS,
        test_given_back=THE_APP_IS_GIVEN_BACK,
        test_inline=INLINE,
        test_crashes=CRASHES,
    )
    pytester.makeconftest(CONFTEST)
    run(pytester).assert_outcomes(passed=21)


def test_schedules(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    pytester.makepyfile(reports=REPORTS, test_schedules=SCHEDULES)
    run(pytester).assert_outcomes(passed=11)


def test_without_an_app_of_ones_own(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    pytester.makepyfile(test_it=WITHOUT_AN_APP)
    result = run(pytester)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*the marker is headway(store=*"])


def run(pytester: pytest.Pytester) -> pytest.RunResult:
    return pytester.runpytest_subprocess(
        "-p", "no:headway", "-p", "headway.testing.plugin", "-p", "no:valkey", "-W", "error", "-q"
    )
