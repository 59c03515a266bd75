"""Stored tracebacks begin in the user's code, wherever a handler and its worker run."""

from __future__ import annotations

import asyncio
import gc
import importlib
import sqlite3
import subprocess
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from headway import Headway, Job
from headway.domain.events import AttemptFailed, Event
from headway.domain.failure import decode_failure
from tests.support.bare_environment import bare_environment, requirements

ROOT = Path(__file__).parents[2]

SHOP = """
import asyncio
from headway import Headway, Job

app = Headway("sqlite:///shop.db")


@app.job(max_attempts=1)
async def on_the_loop() -> None:
    raise KeyError("gone")


@app.job(max_attempts=1)
def in_a_thread() -> None:
    raise KeyError("gone")


@app.job(max_attempts=1, isolate=True)
def in_a_process() -> None:
    raise KeyError("gone")


@app.job(max_attempts=1, atomic=True)
async def in_a_transaction(job: Job) -> None:
    raise KeyError("gone")
"""
TYPES = ("on_the_loop", "in_a_thread", "in_a_process", "in_a_transaction")


@pytest.mark.parametrize("uvloop", [True, False], ids=["uvloop", "no uvloop"])
def test_a_worker_in_an_environment_with_the_documented_extra_only(
    uvloop: bool, tmp_path: Path
) -> None:
    packages = requirements("cli")
    assert "uvloop" in packages
    if not uvloop:
        packages.remove("uvloop")
    python = bare_environment(tmp_path / "environment", packages)
    (tmp_path / "shop.py").write_text(SHOP)
    app = Headway(f"sqlite:///{tmp_path / 'shop.db'}")
    for name in TYPES:
        app.job(name=name)(_declared)
    with app.sync as client:
        client.start_many([app.request(name) for name in TYPES])
        done = subprocess.run(
            [python, "-W", "error", "-m", "headway", "worker", "shop.py", "--drain"],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        jobs = client.list().jobs
    for job in jobs:
        assert decode_failure(job.last_error or "").traceback.splitlines()[:2] == [
            "Traceback (most recent call last):",
            f'  File "{tmp_path / "shop.py"}", line {_line(job.type)}, in {job.type}',
        ]
    assert sorted(job.type for job in jobs) == sorted(TYPES)


async def _declared() -> None: ...


def _line(handler: str) -> int:
    lines = SHOP.splitlines()
    return next(n for n, line in enumerate(lines, 1) if f"def {handler}(" in line) + 1


async def in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(fails())


async def fails() -> None:
    raise KeyError("gone")


def fails_in_a_thread() -> None:
    raise KeyError("gone")


async def fails_while_handling() -> None:
    try:
        await fails()
    except KeyError:
        int("three")


async def layer(job: Job[*tuple[Any, ...]], call_next: Callable[[], Awaitable[Any]]) -> Any:
    return await call_next()


@pytest.mark.parametrize("middleware", [(), (layer,)], ids=["bare", "middleware"])
def test_a_worker_in_an_except_block(middleware: Any, sqlite_path: Path) -> None:
    """Python makes the handled error the context of whatever is raised meanwhile."""
    app = Headway(f"sqlite:///{sqlite_path}")
    handlers: dict[str, Any] = {
        each.__name__: each for each in (fails, in_a_group, fails_in_a_thread, fails_while_handling)
    }
    for name, function in handlers.items():
        app.job(name=name, max_attempts=1)(function)

    async def work() -> dict[str, str]:
        async with app:
            await app.start_many([app.request(name) for name in handlers])
            await app.worker(middleware=middleware).run(drain=True)
            jobs = (await app.list()).jobs
            return {job.type: decode_failure(job.last_error or "").traceback for job in jobs}

    try:
        raise ModuleNotFoundError("No module named 'fast'")
    except ModuleNotFoundError:
        found = asyncio.run(work())
    assert found.keys() == handlers.keys()
    for name, trace in found.items():
        assert "No module named" not in trace
        first = trace.splitlines()[1].lstrip(" |")
        caught = "layer" if middleware and name != "fails_while_handling" else name
        assert first.startswith(f'File "{__file__}"'), trace
        assert first.endswith(f", in {caught}"), trace
    assert "KeyError: 'gone'" in found["fails_while_handling"], "the handler's own context stays"
    assert "KeyError: 'gone'" in found["in_a_group"]


class Picture:
    """Large, and a local variable of a handler."""


@pytest.mark.parametrize("asked", [False, True])
async def test_what_a_failed_handler_held_is_freed_at_once(asked: bool) -> None:
    """Not when garbage is collected some day: a storm of failures would hold a lot."""
    seen: list[str] = []

    class Observed:
        exceptions = asked

        def observe(self, event: Event) -> None:
            if isinstance(event, AttemptFailed) and event.exception is not None:
                seen.append(event.type)

    app = Headway("memory://", observers=[Observed()])
    pictures: list[weakref.ref[Picture]] = []

    @app.job(max_attempts=1)
    async def on_the_loop() -> None:
        picture = Picture()
        pictures.append(weakref.ref(picture))
        raise KeyError("gone")

    @app.job(max_attempts=1)
    def in_a_thread() -> None:
        picture = Picture()
        pictures.append(weakref.ref(picture))
        raise KeyError("gone")

    async with app:
        await app.start(on_the_loop.request())
        await app.start(in_a_thread.request())
        gc.disable()
        try:
            await app.worker().run(drain=True)
            assert [picture() for picture in pictures] == [None, None]
        finally:
            gc.enable()
    assert sorted(seen) == (["in_a_thread", "on_the_loop"] if asked else [])


class FailingRollback:
    """A transaction that cannot be rolled back, as if the connection were lost meanwhile."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)

    async def __aenter__(self) -> sqlite3.Connection:
        self._connection.execute("begin immediate")
        return self._connection

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._connection.close()
        if kind is not None:
            raise ConnectionError("lost")


async def fails_in_a_transaction(job: Job) -> None:
    raise KeyError("gone")


def fails_with_stop_iteration() -> None:
    raise StopIteration  # Python makes it the cause of a RuntimeError, in the worker


@pytest.mark.parametrize(
    ("handler", "atomic"), [(fails_in_a_transaction, True), (fails_with_stop_iteration, False)]
)
async def test_the_error_of_the_handler_is_behind_another_one(
    handler: Any, atomic: bool, sqlite_path: Path
) -> None:
    app = Headway(f"sqlite:///{sqlite_path}", transactions=lambda: FailingRollback(sqlite_path))
    app.job(name="work", max_attempts=1, atomic=atomic)(handler)
    async with app:
        await app.start(app.request("work"))
        await app.worker().run(drain=True)
        (job,) = (await app.list()).jobs
    trace = decode_failure(job.last_error or "").traceback
    first = trace.splitlines()[1]
    assert first.startswith(f'  File "{__file__}"'), trace
    assert first.endswith(f", in {handler.__name__}"), trace


UNCONFIGURED = """
import multiprocessing
from headway import Headway

app = Headway("memory://")
if multiprocessing.parent_process():
    raise LookupError("no configuration")


@app.job(max_attempts=1, isolate=True)
def in_a_process() -> None: ...
"""


async def test_a_module_that_cannot_be_imported_in_the_process_of_a_handler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "unconfigured_shop.py"
    path.write_text(UNCONFIGURED)
    monkeypatch.syspath_prepend(str(tmp_path))
    app: Headway = importlib.import_module(path.stem).app
    async with app:
        await app.start(app.request("in_a_process"))
        await app.worker().run(drain=True)
        (job,) = (await app.list()).jobs
    assert decode_failure(job.last_error or "").traceback.splitlines()[:2] == [
        "Traceback (most recent call last):",
        f'  File "{path}", line 7, in <module>',
    ]
