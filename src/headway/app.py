"""Headway: puts store, notifier, client and worker together."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from difflib import get_close_matches
from functools import partial
from typing import Any, ParamSpec, Self, TypeVar, Unpack

from headway.admin.actions import StoreActions
from headway.admin.questions import StoreQuestions
from headway.after_commit.observer_group import Observers
from headway.client.client import Client
from headway.client.schedules import Schedules
from headway.client.sync_headway import SyncHeadway
from headway.domain.limits.queue_limits import LimitOptions, QueueLimits
from headway.domain.request import Bs, Request
from headway.domain.schedules.timetable import Timetable
from headway.domain.validation import check_name
from headway.errors import ConfigurationError, InvalidOption
from headway.jobs.codec import JsonCodec
from headway.jobs.decorators import ImplementationDecorator, JobDecorator
from headway.jobs.handler import Handler
from headway.jobs.job_type import AnyType, ContinuationType
from headway.jobs.registry import Registry
from headway.jobs.schedule_definition import ScheduleOptions, define_schedule
from headway.notifiers.local import LocalNotifier
from headway.notifiers.urls import notifier_for_store, notifier_from_url
from headway.observers.logs import LogObserver
from headway.ports.admin import Actions, Questions
from headway.ports.clock import Clock
from headway.ports.codec import Codec
from headway.ports.notifier import Notifier, Reach
from headway.ports.observer import Observer
from headway.ports.provider import Provider
from headway.ports.store import Store
from headway.runtime.clock import SystemClock
from headway.runtime.forks import Forkable
from headway.runtime.shared_resource import SharedResource, close_both, open_both
from headway.stores.urls import sqlite_path, store_from_url, without_driver
from headway.worker.handler_runner import Middleware
from headway.worker.handler_transactions import BeginTransaction
from headway.worker.settings import Retention, WorkerOptions, WorkerSettings
from headway.worker.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")

_log = logging.getLogger("headway")


class Headway(Client, Forkable):
    """The application: a store, a notifier and the job types.

    Making one does no I/O and needs no event loop, so it can stand at the top of a module.
    """

    def __init__(
        self,
        store: str | Store = "sqlite:///headway.db",
        *,
        notifier: str | Notifier | None = None,
        observers: Iterable[Observer] = (),
        codec: Codec | None = None,
        clock: Clock | None = None,
        migrate: bool | None = None,
        schema: str = "headway",
        prefix: str = "headway_",
        providers: Sequence[Provider] = (),
        transactions: BeginTransaction | None = None,
        registry: Registry | None = None,
    ) -> None:
        """`store` is a URL, or a store that you made.
        `notifier` is a URL (redis://, nats://, postgresql://, mongodb://), "none", "local", or a
        notifier that you made; by default the store's own.
        `migrate` brings the schema up to date when the app is opened; by default it does so for
        SQLite files and not for servers.
        `schema` is PostgreSQL's, and the beginning of the names of MongoDB's collections; `prefix`
        is the beginning of the names of SQLite's tables.
        `providers` recognise the connections that are passed as `tx`, before the built-in ones.
        `transactions` opens the transactions of `job.prepare()` and `job.complete()`, such as the
        `begin` of a SQLAlchemy sessionmaker; by default the store does.
        `registry` is another app's, to have the same job types on another store."""
        self.registry = registry or Registry()
        self.codec: Codec = codec or JsonCodec()
        self.observers = Observers(observers)
        self.clock: Clock = clock or SystemClock()
        if isinstance(store, str):
            url = without_driver(store)
            self._make_store = partial(
                store_from_url, url, schema=schema, prefix=prefix, providers=tuple(providers)
            )
            self.store: Store = self._make_store()
            self._shares_store = not self.store.capabilities.across_processes
            if migrate is None:
                migrate = not url.startswith(("postgres", "mongodb"))
        elif providers:
            raise ConfigurationError("give `providers` to the store that you made, not to Headway")
        else:
            url = None
            self.store = store
            self._shares_store = True
        self._make_notifier: Callable[[], Notifier]
        if isinstance(notifier, str):
            self._make_notifier = partial(notifier_from_url, notifier, schema=schema)
        elif notifier is None and url is not None:
            path = sqlite_path(url) if url.startswith("sqlite:") else None
            self._make_notifier = partial(notifier_for_store, url, path=path, schema=schema)
        else:
            given = notifier or LocalNotifier()
            self._make_notifier = lambda: given
        self.notifier = self._make_notifier()
        self._shares_notifier = self.notifier is notifier or self.notifier.reach <= Reach.PROCESS
        super().__init__(
            self.store,
            notifier=self.notifier,
            registry=self.registry,
            observers=self.observers,
            codec=self.codec,
            clock=self.clock,
        )
        self.schedules = Schedules(
            self.store,
            self,
            declared=self.registry.schedules(),
            observers=self.observers,
            clock=self.clock,
            publisher=self._publisher,
        )
        """Schedules at run time: put, get, list, runs, pause, resume, trigger, backfill, delete."""
        self._transactions = transactions
        self._questions = StoreQuestions(self.store, self.registry, self.clock)
        self._migrate = bool(migrate)
        self._shared_store = SharedResource(self.store, migrate=self._migrate)
        self._shared_notifier = SharedResource(self.notifier)
        self._sync: SyncHeadway | None = None
        self.in_child()
        self.job = JobDecorator(self.registry, self.codec)
        """Makes a function a job type: `@app.job`, or `@app.job(queue="mail", timeout=60)`."""
        self.watch_forks()

    def in_child(self) -> None:
        self._sync_lock = threading.Lock()
        self._users = 0

    def implement(self, type: ContinuationType[P, R, *Bs]) -> ImplementationDecorator[P, R, *Bs]:
        """Give a declared job type its handler: `@app.implement(charge)`."""
        return ImplementationDecorator(self.registry, self.codec, type)

    def register(self, *types: AnyType) -> None:
        """Make declared job types known here by name, without a handler."""
        for type_ in types:
            self.registry.add(type_)

    def schedule(
        self,
        name: str,
        timetable: Timetable,
        request: Request[Any],
        /,
        **options: Unpack[ScheduleOptions],
    ) -> None:
        """Declare a schedule: workers store it when they start, and start a job at each tick."""
        check_name("schedule name", name)
        self.registry.add_schedule(name, define_schedule(name, timetable, request, {**options}))

    def queue(self, name: str, /, **limits: Unpack[LimitOptions]) -> None:
        """Declare the limits of a queue, for all workers together: workers store them when they
        start. Without any, the queue has no limits (any more)."""
        check_name("queue", name)
        for option in limits:
            if option not in LimitOptions.__annotations__:
                known = ", ".join(LimitOptions.__annotations__)
                raise InvalidOption(f"app.queue has no option {option!r}; it has {known}")
        self.registry.add_queue(name, QueueLimits(**limits))

    async def open(self) -> None:
        """Connect; `async with app:` does it. Each call needs a `close`."""
        await open_both(self._shared_store, self._shared_notifier)
        self._users += 1
        self.observers.app_opened(self.store)

    async def close(self) -> None:
        """Disconnect, with the `close` of the first `open`; further calls are fine."""
        self._users -= 1
        try:
            if self._users == 0:
                await self.observers.app_closing()
        finally:
            self._users = max(self._users, 0)
            await close_both(self._shared_store, self._shared_notifier)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def worker(
        self,
        settings: WorkerSettings | None = None,
        *,
        middleware: Sequence[Middleware] = (),
        **options: Unpack[WorkerOptions],
    ) -> Worker:
        """A worker for the job types that have handlers here, by default on all their queues. Run
        it while the app is open. It logs failures to the logger `headway`."""
        if self.observers.find(LogObserver) is None:
            self.observers.add(LogObserver())
        chosen = replace(settings or WorkerSettings(), **options)
        if chosen.queues is None:
            chosen = replace(chosen, queues=self.worked_queues() or None)
        self._warn_of_unused_limits(chosen)
        declared = {
            name: Retention(completed=kept, cancelled=kept)
            for name, seconds in self.registry.retentions().items()
            for kept in (timedelta(seconds=seconds),)
        }
        return Worker(
            self.store,
            self.handlers(),
            replace(chosen, retention_by_type={**declared, **chosen.retention_by_type}),
            notifier=self.notifier,
            observers=(self.observers,),
            middleware=middleware,
            clock=self.clock,
            transactions=self._transactions,
            schedules=self.registry.schedules(),
            limits=self.registry.queues(),
        )

    def _warn_of_unused_limits(self, settings: WorkerSettings) -> None:
        """A queue whose name is misspelt in `app.queue` would have no limits."""
        used = {queue.name for queue in settings.work_queues()}
        used.update(type_.options.queue for type_ in self.registry)
        for name, limits in self.registry.queues().items():
            if name not in used and limits.any:
                near = get_close_matches(name, used, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                _log.warning(
                    "app.queue(%r) declares limits, and no job type of this app uses that queue%s",
                    name,
                    hint,
                )

    def handlers(self) -> Mapping[str, Handler]:
        """The handlers of this app's workers, by job type."""
        return self.registry.handlers()

    def worked_queues(self) -> tuple[str, ...]:
        """The queues of this app's workers, unless their settings name others."""
        handlers = self.registry.handlers()
        known = [self.registry.type(name).options.queue for name in handlers]
        jobs = [schedule.job for schedule in self.registry.schedules().values()]
        scheduled = [job.queue for job in jobs if job.type in handlers]
        return tuple(dict.fromkeys((*known, *scheduled)))

    @property
    def questions(self) -> Questions:
        """Questions of operators: overview, queues, jobs, explanations, failures. Use it while the
        app is open."""
        return self._questions

    def actions(self, actor: str) -> Actions:
        """Actions of operators; the audit records them under the name `actor`."""
        return StoreActions(
            self.store, self.registry, self.clock, self.observers, self._publisher, actor
        )

    @property
    def sync(self) -> SyncHeadway:
        """The same verbs without `await`. The first use opens it; `app.sync.close()`, or the end of
        `with app.sync:`, closes it."""
        with self._sync_lock:
            if self._sync is None:
                self._sync = self._make_sync()
            self._sync.open()
            return self._sync

    def _make_sync(self) -> SyncHeadway:
        # Connections belong to the loop that opened them, so the sync client has its own; a store
        # that lives in this process is shared.
        store, notifier = self._shared_store, self._shared_notifier
        if not self._shares_store:
            store = SharedResource(self._make_store(), migrate=self._migrate)
        if not self._shares_notifier:
            notifier = SharedResource(self._make_notifier())
        return SyncHeadway(
            store,
            notifier,
            registry=self.registry,
            observers=self.observers,
            codec=self.codec,
            clock=self.clock,
        )

    def __repr__(self) -> str:
        return f"<Headway on {self.store.name}>"
