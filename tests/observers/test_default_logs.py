"""Failures are logged without any set-up: in a program, beside a web server, in tests."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from headway import Fixed, Headway, JobType
from headway.domain.events import Event
from headway.observers.logs import LogObserver
from headway.ports.observer import Observer
from headway.testing.app_under_test import AppUnderTest
from tests.support.processes import environment

SCRIPT = """
    import asyncio, contextlib, logging, sys
    from headway import Fixed, Headway
    from headway.errors import ResultFailed

    app = Headway("memory://")

    @app.job
    async def charge(order_id: int) -> int:
        return order_id

    @app.job(max_attempts=2, retry=Fixed(0))
    async def refuse(order_id: int) -> None:
        raise ValueError(f"order {order_id} is refused")

    async def in_a_program() -> None:
        async with app:
            await app.start(charge.request(1))
            print((await app.start(refuse.request(2))).id)
            await app.worker().run(drain=True)

    async def beside_a_server() -> None:
        from starlette.applications import Starlette
        from headway.fastapi import lifespan

        server = Starlette()
        async with lifespan(app, worker=True)(server):
            await (await app.start(charge.request(1))).result(timeout=30)
            refused = await app.start(refuse.request(2))
            print(refused.id)
            with contextlib.suppress(ResultFailed):
                await refused.result(timeout=30)

    async def silent() -> None:
        logging.getLogger("headway").setLevel(logging.CRITICAL)
        await in_a_program()

    asyncio.run(globals()[sys.argv[1]]())
"""


def run(tmp_path: Path, how: str) -> tuple[str, str, Path]:
    """The id of the job that is refused, the stderr, and the script."""
    script = tmp_path / "shop.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run(
        [sys.executable, script, how],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr, script


@pytest.mark.parametrize("how", ["in_a_program", "beside_a_server"])
def test_a_failure_is_on_stderr_where_nobody_set_logging_up(tmp_path: Path, how: str) -> None:
    refused, said, script = run(tmp_path, how)
    error = "ValueError: order 2 is refused"
    line = (
        script.read_text()
        .splitlines()
        .index('    raise ValueError(f"order {order_id} is refused")')
    )
    trace = [
        "Traceback (most recent call last):",
        f'  File "{script}", line {line + 1}, in refuse',
        '    raise ValueError(f"order {order_id} is refused")',
        error,
    ]
    plain = re.sub(r"after [\d.]+ s", "after a while", said)
    assert plain.splitlines() == [
        f"refuse {refused} failed on attempt 1 after a while, to be tried again in 0.0 s: {error}",
        *trace,
        f"refuse {refused} dead-lettered on attempt 2: {error}",
        *trace,
    ]


def test_the_level_of_the_logger_switches_it_off(tmp_path: Path) -> None:
    refused, said, _ = run(tmp_path, "silent")
    assert (bool(refused), said) == (True, "")


class Deaf:
    every_job = False

    def observe(self, event: Event) -> None: ...


def app_with(*observers: Observer) -> tuple[Headway, JobType[[], None]]:
    app = Headway("memory://", observers=observers)

    @app.job(max_attempts=2, retry=Fixed(0))
    async def refuse() -> None:
        raise ValueError("refused")

    return app, refuse


@pytest.mark.parametrize(
    "observers", [(), (LogObserver(),), (Deaf(),)], ids=["none", "logs", "deaf"]
)
async def test_a_failure_is_logged_once_whatever_the_observers(
    observers: tuple[Observer, ...], caplog: pytest.LogCaptureFixture
) -> None:
    app, refuse = app_with(*observers)
    for _ in range(2):
        async with app:
            await app.start(refuse.request())
            await app.worker().run(drain=True)
    levels = [record.levelno for record in caplog.records if record.name == "headway"]
    assert levels == [logging.WARNING, logging.ERROR] * 2
    assert not app.observers.active, "no events are made of jobs that succeed"


async def test_the_drain_of_a_test_logs_failures_too(caplog: pytest.LogCaptureFixture) -> None:
    app, refuse = app_with()
    with AppUnderTest(app) as headway:
        await app.start(refuse.request())
        await headway.drain()
    assert [record.levelno for record in caplog.records] == [logging.WARNING, logging.ERROR]
