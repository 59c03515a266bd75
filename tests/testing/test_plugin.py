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
