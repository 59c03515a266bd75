"""An app on a store of the test's own, with a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Self, cast

import msgspec

from headway.after_commit.observer_group import Observers
from headway.after_commit.publisher import Publisher
from headway.app import Headway
from headway.domain.job import JobRecord
from headway.domain.queries import JobFilter
from headway.domain.request import AnyRequest, ContinuationRequest
from headway.jobs.job import Job
from headway.jobs.job_type import AnyType
from headway.ports.store import Store
from headway.runtime.loop_thread import Portal
from headway.testing.clock import ManualClock
from headway.testing.crashing_store import CrashingStore, CrashPoint
from headway.testing.inline_notifier import InlineNotifier
from headway.testing.tick_by_tick import MOST_TICKS, TickByTick
from headway.worker.environment import WorkerEnvironment
from headway.worker.handler_runner import CallNext
from headway.worker.handler_transactions import BeginTransaction
from headway.worker.leases.reaper import Reaper
from headway.worker.leases.store_outage import Outage
from headway.worker.settings import WorkerSettings


class AppUnderTest:
    """Gives an app, with its job types, a store of the test's own until it is closed. Other code
    that holds the app, such as a web server, uses that store too.

    Nothing runs by itself: `await headway.drain()` fires the schedules and runs all jobs that are
    due. Time stands still until `headway.clock.advance(...)` moves it.

    Limits of queues hold: a drain ends when a rate or a hold keeps the other jobs waiting. Advance
    the clock until the next start is allowed, and drain again. Jobs run one after the other, so
    `running` and `per_key` keep a job waiting only for the jobs of a worker that crashed.
    """

    def __init__(
        self,
        app: Headway,
        store: str = "memory://",
        *,
        transactions: BeginTransaction | None = None,
    ) -> None:
        """`store` is memory:// or an SQLite file: these stores work on any event loop."""
        if not store.startswith(("memory:", "sqlite:")):
            raise ValueError("a test keeps its jobs in memory:// or in a sqlite:/// file")
        self.app = app
        self.clock = ManualClock()
        self.raised: list[BaseException] = []
        """Errors that handlers raised, in order."""
        self.crashed = False
        """Whether the last worker crashed at the point given to `crash_at`."""
        self._point: CrashPoint | None = None
        self._drains = 0
        self._pending: set[asyncio.Task[None]] = set()
        self._notifier = InlineNotifier(self.drain, self._drain_soon)
        self._replacement = Headway(
            store,
            notifier=self._notifier,
            codec=app.codec,
            clock=self.clock,
            transactions=transactions,
            registry=app.registry,
        )
        self._before = dict(vars(app))
        vars(app).update(vars(self._replacement))
        self._schedules = TickByTick(app, self.clock)
        self._portal = Portal()
        try:
            self._portal.call(self._open())
        except BaseException:
            self._restore()
            raise

    async def _open(self) -> None:
        await self.app.open()
        await self._schedules.declare()

    def close(self) -> None:
        """Give the app its own store back. May be called twice."""
        if vars(self.app).get("notifier") is not self._notifier:
            return
        try:
            self.app.sync.close()
            self._portal.call(self.app.close())
        finally:
            self._restore()

    def _restore(self) -> None:
        vars(self.app).clear()
        vars(self.app).update(self._before)
        self._portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def drain(self, *, outage: bool = False) -> None:
        """Run the jobs that are due and that the limits of their queues allow, and those that they
        start, on this event loop. A job whose worker crashed is due when its lease has expired.

        Ticks of schedules that came since the last drain are fired one after the other, each with
        the jobs of the one before it done, as if a worker had run all the time. `outage`: no worker
        has run since the last drain, so `catch_up` decides about these ticks."""
        if not self._drains:
            await asyncio.gather(*self._pending)
        await self._drain_here(outage=outage)

    async def _drain_here(self, *, outage: bool = False) -> None:
        self._drains += 1
        try:
            if self._drains == 1:
                await self._fire_and_work(outage=outage)
            else:  # for a job that a handler started inline
                await self._work()
        finally:
            self._drains -= 1

    async def _fire_and_work(self, *, outage: bool) -> None:
        self.crashed = False
        try:
            await self._schedules.declare()
            await self._work()
            ticks = 0
            while not self.crashed and await self._schedules.fire(outage=outage):
                await self._work()
                ticks += 1
                if ticks >= MOST_TICKS:
                    raise ValueError(
                        f"more than {MOST_TICKS:,} ticks of schedules have come since the last "
                        "drain: advance the clock in smaller steps, or drain with outage=True"
                    )
        finally:
            self._point = None
            self._schedules.drained()

    def drain_sync(self, *, outage: bool = False) -> None:
        """The same for tests without an event loop."""
        self._portal.call(self.drain(outage=outage))

    @contextmanager
    def inline(self) -> Generator[None]:
        """In the block, `start` returns after the job, and the jobs that it started, have run. Jobs
        that are started in a transaction run after the commit."""
        before, self._notifier.inline = self._notifier.inline, True
        try:
            yield
        finally:
            self._notifier.inline = before

    def crash_at(self, point: CrashPoint | str) -> None:
        """Let the next drain's worker crash at `claimed`, `handled` or `committed`. Its jobs are
        due again when their leases have expired: `headway.clock.advance(31)`, and drain again."""
        self._point = CrashPoint(point)

    def started(self, what: AnyType | AnyRequest | str | None = None) -> list[JobRecord]:
        """The jobs of this type, or equal to this request, oldest first; by default all."""
        name = what if isinstance(what, str) else getattr(what, "name", None)
        if isinstance(what, ContinuationRequest):
            name = what.type
        found: list[JobRecord] = []
        cursor: str | None = None
        store = self.app.store
        while True:
            page = store.run_sync(store.find, _filter(name), cursor=cursor, limit=200)
            found += page.jobs
            cursor = page.cursor
            if cursor is None:
                break
        if isinstance(what, ContinuationRequest):
            wanted = _decoded(what.input)
            found = [job for job in found if _decoded(job.input) == wanted]
        return found[::-1]

    def assert_started(
        self,
        what: AnyType | AnyRequest,
        *,
        times: int | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> JobRecord:
        """Assert that such a job was started, or `times` of them; returns the last one. `what` is a
        request, which must be equal, or a job type with some of its `arguments`."""
        wanted = _encoded(arguments)
        found = [job for job in self.started(what) if _has(job, wanted)]
        if not found if times is None else len(found) != times:
            count = "none" if not found else str(len(found))
            expected = "at least one" if times is None else str(times)
            raise AssertionError(
                f"{expected} {_described(what, wanted)} should have been started, and {count} was; "
                f"these were: {self._list()}"
            )
        if not found:
            raise AssertionError("times must be 1 or more; use assert_not_started")
        return found[-1]

    def assert_not_started(
        self, what: AnyType | AnyRequest, *, arguments: Mapping[str, Any] | None = None
    ) -> None:
        wanted = _encoded(arguments)
        if any(_has(job, wanted) for job in self.started(what)):
            raise AssertionError(
                f"no {_described(what, wanted)} should have been started; "
                f"these were: {self._list()}"
            )

    async def _work(self) -> None:
        app = self.app
        environment = WorkerEnvironment(WorkerSettings(), app.store, self.clock, Observers())
        publisher = Publisher(app.store, None, environment.observers)
        reaper = Reaper(environment, publisher, Outage(environment))
        while await reaper.reap():
            pass
        if not app.handlers():
            return
        point = self._point if self._drains == 1 else None
        store, crashing = app.store, CrashingStore(app.store, point)
        app.store = cast("Store", crashing)
        try:
            settings = WorkerSettings(concurrency=1, grace=1.0, schedules=False)
            worker = app.worker(settings, middleware=(self._watch,))
        finally:
            app.store = store
        await worker.run(drain=True)
        self.crashed = crashing.crashed

    async def _watch(self, job: Job[*tuple[Any, ...]], call_next: CallNext) -> Any:
        try:
            return await call_next()
        except Exception as error:
            self.raised.append(error)
            raise

    def _drain_soon(self) -> None:
        if self._drains:  # the current drain finds the job
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.drain_sync()
            return
        task = loop.create_task(self._drain_here())
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    def _list(self) -> str:
        jobs = self.started()
        return "; ".join(f"{job.type} {job.input}" for job in jobs) or "none at all"


def _encoded(arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(dict(arguments or {}))
    return found


def _decoded(input: str) -> Any:
    """Input that another codec wrote is compared as it is."""
    try:
        return msgspec.json.decode(input)
    except msgspec.DecodeError:
        return input


def _filter(type: str | None) -> JobFilter:
    return JobFilter() if type is None else JobFilter(types=(type,))


def _has(job: JobRecord, wanted: Mapping[str, Any]) -> bool:
    given: Any = _decoded(job.input) if wanted else None
    return all(name in given and given[name] == value for name, value in wanted.items())


def _described(what: AnyType | AnyRequest, wanted: Mapping[str, Any]) -> str:
    if isinstance(what, ContinuationRequest):
        return f"{what.type} {what.input}"
    return f"{what.name} {msgspec.json.encode(wanted).decode()}" if wanted else what.name
