"""The fixture of a provider's cases: an app that starts jobs, and an idle worker of another app."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from inspect import isawaitable
from typing import Any, Self, TypeVar

from headway.app import Headway
from headway.domain.job import JobRecord, JobState
from headway.domain.request import Request
from headway.domain.schedules.schedule import ScheduleRecord
from headway.ports.notifications import Interest, JobsScheduled, Notification
from headway.ports.notifier import NotifierStatus
from headway.ports.provider import Provider
from headway.runtime.loop_thread import Portal
from headway.worker.worker import Worker

T = TypeVar("T")
Manager = AbstractAsyncContextManager[Any] | AbstractContextManager[Any]

TIMEOUT = 10.0
"""Seconds to wait for a notification."""
SILENCE = 0.05
"""Seconds after which a notification counts as not sent."""
SILENCE_OF_FILES = 0.12
"""The same for SQLite, whose notifier watches a file."""


@dataclass(frozen=True)
class Subject:
    """A kind of connection, and how its user works with it."""

    url: str
    """URL of the store."""
    transaction: Callable[[], Manager]
    """Opens a new connection and begins a transaction on it: commits when left, rolls back when
    left by an exception."""
    execute: Callable[[Any, str], Any]
    """Runs SQL of the user, without parameters, in a transaction; its rows as tuples."""
    savepoint: Callable[[Any], Manager] | None = None
    """A savepoint in the transaction: released when left, rolled back when left by an exception."""
    look: Callable[[Any], object] = field(default=lambda _: None)
    """The state of a connection that a provider must not change: settings, row factories, prepared
    statements."""
    unsafe: Callable[[], Manager] | None = None
    """Opens a connection on which every statement is committed by itself."""
    providers: Sequence[Provider] = ()

    @cached_property  # a manager that is made may hold a connection already
    def awaited(self) -> bool:
        return hasattr(self.transaction(), "__aenter__")


class IdleWorker:
    """Stands for an idle worker in another process; records its notifications."""

    def __init__(self, silence: float) -> None:
        self.notifications: list[JobsScheduled] = []
        self._silence = silence
        self._marked = threading.Event()
        self._told = threading.Event()

    def hear(self, notification: Notification) -> None:
        if not isinstance(notification, JobsScheduled):
            return
        if notification.type == "marker":
            self._marked.set()
        else:
            self.notifications.append(notification)
            self._told.set()

    def hearing(self, status: NotifierStatus) -> None:
        """Also told when something was committed that nobody announced."""
        self._told.set()

    def forget(self) -> None:
        """Forget that it was woken; the recorded notifications stay."""
        self._told.clear()

    def hears_a_marker(self) -> bool:
        heard = self._marked.wait(TIMEOUT)
        self._marked.clear()
        return heard

    def was_told_of(self, type: str) -> bool:
        return any(notification.type == type for notification in list(self.notifications))

    def is_woken(self) -> bool:
        return self._told.wait(TIMEOUT)

    def sleeps_on(self) -> bool:
        return not self._told.wait(self._silence)


class _RollBack(Exception):
    """Raised to roll back a transaction."""


class ProviderFixture:
    """Opened by a `with` block; its methods are synchronous."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        on_file = subject.url.startswith("sqlite")
        self.idle_worker = IdleWorker(SILENCE_OF_FILES if on_file else SILENCE)
        self.app = Headway(subject.url, migrate=True, providers=subject.providers)
        self._elsewhere = Headway(subject.url, migrate=True)
        self._portal = Portal()

        @self.app.job
        async def kept(text: str = "") -> str:
            return text

        @self.app.job
        async def undone(text: str = "") -> str:
            return text

        @self.app.job
        async def marker() -> str:
            return ""

        self.kept, self.undone, self._marker = kept, undone, marker

    def __enter__(self) -> Self:
        try:
            self.wait_for(self._open())
            self.quiet()
        except BaseException:
            self._portal.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.app.sync.close()
            self.wait_for(self._close())
        finally:
            self._portal.close()

    async def _open(self) -> None:
        await self.app.open()
        await self._elsewhere.open()
        await self._elsewhere.notifier.subscribe(
            self.idle_worker.hear,
            Interest(queues=frozenset({"default"}), types=frozenset({"kept", "undone", "marker"})),
            on_status=self.idle_worker.hearing,
        )

    async def _close(self) -> None:
        await self._elsewhere.close()
        await self.app.close()

    def wait_for(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._portal.call(coroutine)

    @contextmanager
    def transaction(self) -> Generator[Any]:
        with self.entered(self.subject.transaction()) as tx:
            yield tx

    @contextmanager
    def rolled_back(self, manager: AbstractContextManager[T]) -> Generator[T]:
        """Leave a transaction, or a savepoint, by an exception."""
        try:
            with manager as tx:
                yield tx
                raise _RollBack
        except _RollBack:
            pass

    @contextmanager
    def savepoint(self, tx: Any) -> Generator[None]:
        assert self.subject.savepoint is not None
        with self.entered(self.subject.savepoint(tx)):
            yield

    @contextmanager
    def entered(self, manager: Manager) -> Generator[Any]:
        """Enter a context manager of either kind; async ones on a loop in another thread."""
        if isinstance(manager, AbstractContextManager):
            with manager as tx:
                yield tx
            return
        tx = self.wait_for(_awaited(manager.__aenter__()))
        try:
            yield tx
        except BaseException as error:
            leaving = manager.__aexit__(type(error), error, error.__traceback__)
            if not self.wait_for(_awaited(leaving)):
                raise
        else:
            self.wait_for(_awaited(manager.__aexit__(None, None, None)))

    def execute(self, tx: Any, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self._settled(lambda: self.subject.execute(tx, sql))]

    def look(self, tx: Any) -> object:
        return self._settled(lambda: self.subject.look(tx))

    def do(self, verb: str, *args: Any, **options: Any) -> Any:
        """Call a method of the client, async or sync like the subject."""
        if self.subject.awaited:
            return self.wait_for(getattr(self.app, verb)(*args, **options))
        return getattr(self.app.sync, verb)(*args, **options)

    def do_schedules(self, verb: str, *args: Any, **options: Any) -> Any:
        """The same for `app.schedules`."""
        if self.subject.awaited:
            return self.wait_for(getattr(self.app.schedules, verb)(*args, **options))
        return getattr(self.app.sync.schedules, verb)(*args, **options)

    def start(self, request: Request[Any], tx: Any, **options: Any) -> str:
        id: str = self.do("start", request, tx=tx, **options).id
        return id

    def job(self, id: str) -> JobRecord | None:
        """The job as others see it."""
        store = self._elsewhere.store
        (job,) = self.wait_for(store.run(store.get, [id]))
        return job

    def schedule(self, name: str) -> ScheduleRecord | None:
        """The schedule as others see it."""
        store = self._elsewhere.store
        (schedule,) = self.wait_for(store.run(store.schedules, [name]))
        return schedule

    def is_pending(self, id: str) -> bool:
        job = self.job(id)
        return job is not None and job.state is JobState.PENDING

    def drain(self, worker: Worker) -> None:
        self.wait_for(worker.run(drain=True))

    def quiet(self) -> None:
        """Wait until the idle worker has received every notification: they keep their order."""
        self.do("start", self._marker.request())
        assert self.idle_worker.hears_a_marker(), (
            "no notification arrives, not even without a transaction"
        )
        self.idle_worker.forget()

    def _settled(self, call: Callable[[], Any]) -> Any:
        """The result of a call, which is awaited on the loop if the subject is async."""
        if not self.subject.awaited:
            return call()

        async def called() -> Any:
            value = call()
            return await value if isawaitable(value) else value

        return self.wait_for(called())


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable
