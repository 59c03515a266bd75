"""Headway: reads a URL, puts store, notifier, client and worker together."""

from __future__ import annotations

import asyncio
import atexit
import importlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, ParamSpec, Self, TypedDict, TypeVar, Unpack, cast
from urllib.parse import unquote, urlsplit

from headway.admin.actions import Operator
from headway.admin.questions import Insights
from headway.after_commit.observers import Observers
from headway.client.client import Client
from headway.client.sync import BlockingClient
from headway.domain.names import check_parameters
from headway.domain.request import Bs
from headway.errors import ConfigurationError
from headway.jobs.codec import JsonCodec
from headway.jobs.decorators import Implementation, JobDecorator, StepDecorator
from headway.jobs.handler import Handler
from headway.jobs.job_type import StepType
from headway.jobs.registry import Registry
from headway.notifiers.local import LocalNotifier
from headway.notifiers.urls import notifier_for_store, notifier_from_url
from headway.ports.admin import Insight, Operating
from headway.ports.clock import Clock
from headway.ports.codec import Codec
from headway.ports.notifier import Notifier, Reach
from headway.ports.observer import Observer
from headway.ports.provider import Provider
from headway.ports.store import Store
from headway.runtime.cancellation import Cancels
from headway.runtime.clock import SystemClock
from headway.runtime.forks import Forkable
from headway.runtime.loop_thread import Portal
from headway.worker.runner import Middleware
from headway.worker.settings import Retention, WorkerSettings, WorkQueue
from headway.worker.transactions import BeginTransaction
from headway.worker.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")

SCHEMES = (
    "memory://, sqlite:///shop.db (relative), sqlite:////var/shop.db (absolute), postgresql://, "
    "mongodb://"
)


class WorkerOptions(TypedDict, total=False):
    """The fields of WorkerSettings, for `app.worker(concurrency=10)`."""

    queues: Sequence[str | WorkQueue] | Mapping[str, int | None]
    concurrency: int
    batch_size: int
    lease_for: float
    heartbeat_every: float | None
    poll_every: float
    poll_when_told: float | None
    prefetch_for: float
    grace: float
    reap_every: float | None
    maintain_every: float
    forget_workers_after: float
    forget_audit_after: float
    retention: Retention
    retention_by_type: Mapping[str, Retention]
    retention_by_queue: Mapping[str, Retention]
    worker_id: str


class Headway(Client, Forkable):
    """A store, what wakes those who wait for it, and the job types that live on it.

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
        """`store` is a URL or a store of your own making. `migrate` brings the schema up to date
        when the app is opened; by default it does so for SQLite files and not for servers.
        `schema` is PostgreSQL's, and what the names of MongoDB's collections begin with; `prefix`
        goes before the names of SQLite's tables. `notifier` is a URL (redis://, nats://,
        postgresql://, mongodb://), "none", "local", or one of your own making; by default the
        store's own. `providers` are asked first whether they know what is passed as
        `tx`. `transactions` opens those that `job.prepare()` and `job.complete()` hand out, such as
        the `begin` of a SQLAlchemy sessionmaker; by default the store does. `registry` is another
        app's, to have the same job types on another store."""
        if isinstance(store, str):
            store = _without_driver(store)
        self.registry = registry or Registry()
        self.codec: Codec = codec or JsonCodec()
        self.observers = Observers(observers)
        self.clock: Clock = clock or SystemClock()
        if isinstance(notifier, str):
            self._make_notifier = partial(notifier_from_url, notifier, schema=schema)
        elif notifier is not None:
            self._make_notifier = partial(_given, notifier)
        elif isinstance(store, str):
            path = _sqlite_path(store) if store.startswith("sqlite:") else None
            self._make_notifier = partial(notifier_for_store, store, path=path, schema=schema)
        else:
            self._make_notifier = partial(_given, LocalNotifier())
        if isinstance(store, str):
            self._make_store = partial(
                _store_from_url, store, schema=schema, prefix=prefix, providers=tuple(providers)
            )
            self.store: Store = self._make_store()
            self._shares_store = not self.store.capabilities.across_processes
            embedded = not store.startswith(("postgres", "mongodb"))
        elif providers:
            raise ConfigurationError("give `providers` to the store that you made, not to Headway")
        else:
            self.store = store
            self._shares_store = True
            embedded = False
        self.notifier: Notifier = self._make_notifier()
        self._shares_notifier = self.notifier is notifier or self.notifier.reach <= Reach.PROCESS
        super().__init__(
            self.store,
            notifier=self.notifier,
            registry=self.registry,
            observers=self.observers,
            codec=self.codec,
            clock=self.clock,
        )
        self._transactions = transactions
        self._insights = Insights(self.store, self.registry, self.clock)
        self._migrate = embedded if migrate is None else migrate
        self._opening = Opening(self.store, migrate=self._migrate)
        self._notifier_opening = Opening(self.notifier)
        self._sync: SyncClient | None = None
        self._sync_lock = threading.Lock()
        self.job = JobDecorator(self.registry, self.codec)
        """Makes a function a job type: `@app.job`, or `@app.job(queue="mail", timeout=60)`."""
        self.step = StepDecorator(self.registry, self.codec)
        """The same for a job type that can only be reached by continuing a sequence."""
        self.watch_forks()

    def in_child(self) -> None:
        self._sync_lock = threading.Lock()

    def implement(self, type: StepType[P, R, *Bs]) -> Implementation[P, R, *Bs]:
        """Give a declared job type its handler: `@app.implement(charge)`."""
        return Implementation(self.registry, self.codec, type)

    def register(self, *types: StepType[..., Any, *tuple[Any, ...]]) -> None:
        """Make declared job types known here by name, without a handler."""
        for type_ in types:
            self.registry.add(type_)

    async def open(self) -> None:
        """Connect; `async with app:` does it. May be called again, and is then undone as often."""
        await _enter(self._opening, self._notifier_opening)

    async def close(self) -> None:
        """Let go of everything once it was called as often as `open`; further calls are fine."""
        await _leave(self._opening, self._notifier_opening)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def worker(
        self,
        settings: WorkerSettings | None = None,
        *,
        middleware: Sequence[Middleware] = (),
        **options: Unpack[WorkerOptions],
    ) -> Worker:
        """A worker for the job types that have handlers here. Without `queues` it works on all
        queues that these types name. Run it while the app is open."""
        chosen = replace(settings or WorkerSettings(), **options)
        if chosen.queues is None:
            chosen = replace(chosen, queues=self.worked_queues() or None)
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
            observers=(self.observers,) if self.observers.present else (),
            middleware=middleware,
            clock=self.clock,
            transactions=self._transactions,
        )

    def handlers(self) -> Mapping[str, Handler]:
        """What the workers of this app run, by job type."""
        return self.registry.handlers()

    def worked_queues(self) -> tuple[str, ...]:
        """Where they look for it unless told otherwise."""
        known = [self.registry.type(name) for name in self.registry.handlers()]
        return tuple(dict.fromkeys(each.options.queue for each in known))

    @property
    def insights(self) -> Insight:
        """What operators ask: overview, queues, jobs, why, failures. Use it while the app is
        open."""
        return self._insights

    def operator(self, actor: str) -> Operating:
        """What operators do, in the name of `actor`, which the audit keeps."""
        return Operator(
            self.store, self.registry, self.clock, self.observers, self._publisher, actor
        )

    @property
    def sync(self) -> SyncClient:
        """The same verbs without `await`. Opens when first asked for; `app.sync.close()`, or
        leaving `with app.sync:`, closes it."""
        with self._sync_lock:
            if self._sync is None:
                self._sync = self._make_sync()
            self._sync.open()
            return self._sync

    def _make_sync(self) -> SyncClient:
        # Connections belong to the loop that opened them, so blocking callers get their own; a
        # store that lives in this process is shared.
        store, opening = self.store, self._opening
        notifier, notifier_opening = self.notifier, self._notifier_opening
        if not self._shares_store:
            store = self._make_store()
            opening = Opening(store, migrate=self._migrate)
        if not self._shares_notifier:
            notifier = self._make_notifier()
            notifier_opening = Opening(notifier)
        return SyncClient(self, store, notifier, opening, notifier_opening)

    def __repr__(self) -> str:
        return f"<Headway on {self.store.name}>"


class SyncClient(BlockingClient, Forkable):
    """The client of an app for code without an event loop. Safe to use from any thread."""

    def __init__(
        self,
        app: Headway,
        store: Store,
        notifier: Notifier,
        store_opening: Opening,
        notifier_opening: Opening,
    ) -> None:
        super().__init__(
            store,
            notifier=notifier,
            registry=app.registry,
            observers=app.observers,
            codec=app.codec,
            clock=app.clock,
        )
        self._openings = store_opening, notifier_opening
        self.in_child()
        self.watch_forks()

    def in_child(self) -> None:
        self._portal: Portal | None = None
        self._lock = threading.Lock()
        atexit.unregister(self.close)

    def open(self) -> None:
        with self._lock:
            if self._portal is not None:
                return
            portal = Portal()
            try:
                portal.call(_enter(*self._openings))
            except BaseException:
                portal.close()
                raise
            self._portal = portal
            atexit.register(self.close)

    def close(self) -> None:
        """Closing twice is fine; `app.sync` opens again."""
        with self._lock:
            portal, self._portal = self._portal, None
            if portal is None:
                return
            atexit.unregister(self.close)
            try:
                portal.call(_leave(*self._openings))
            finally:
                portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Opening(Forkable):
    """Opens a store or notifier for the first who needs it, and closes it after the last."""

    def __init__(self, resource: Store | Notifier, *, migrate: bool = False) -> None:
        self._resource = resource
        self._migrate = migrate
        self.in_child()
        self.watch_forks()

    def in_child(self) -> None:
        self._lock = asyncio.Lock()
        self._users = 0

    async def enter(self) -> None:
        async with self._lock:
            if self._users == 0:
                try:
                    with Cancels():
                        if self._migrate:
                            await cast("Store", self._resource).migrate()
                        await self._resource.open()
                except BaseException:
                    await self._resource.close()
                    raise
            self._users += 1

    async def leave(self) -> None:
        async with self._lock:
            if self._users == 0:
                return
            self._users -= 1
            if self._users:
                return
            await self._resource.close()
        self._lock = asyncio.Lock()  # the next to open may run on another loop


async def _enter(store: Opening, notifier: Opening) -> None:
    await store.enter()
    try:
        await notifier.enter()
    except BaseException:
        await store.leave()
        raise


async def _leave(store: Opening, notifier: Opening) -> None:
    try:
        await notifier.leave()
    finally:
        await store.leave()


def _without_driver(url: str) -> str:
    """`postgresql+asyncpg://` as `postgresql://`: one URL serves SQLAlchemy and Headway."""
    scheme, separator, rest = url.partition("://")
    name = scheme.partition("+")[0]
    return f"{name}{separator}{rest}" if name in ("postgresql", "sqlite") else url


def _store_from_url(
    url: str, *, schema: str, prefix: str, providers: Sequence[Provider] = ()
) -> Store:
    scheme, separator, _ = url.partition("://")
    if not separator:
        raise ConfigurationError(f"a store is named by a URL: {SCHEMES}")
    match scheme:
        case "memory":
            check_parameters("a memory URL", url.partition("?")[2], ())
            return _load("memory", "MemoryStore")()
        case "sqlite":
            return _load("sqlite", "SqliteStore")(
                _sqlite_path(url), prefix=prefix, providers=providers
            )
        case "postgresql" | "postgres":
            _check_server_url(url)
            return _load("postgres", "PostgresStore")(url, schema=schema, providers=providers)
        case "mongodb" | "mongodb+srv":
            return _load("mongodb", "MongoStore")(url, schema=schema)
        case _:
            raise ConfigurationError(f"unknown scheme {scheme[:40]!r}; there are {SCHEMES}")


def _sqlite_path(url: str) -> str:
    rest, _, query = url.removeprefix("sqlite://").partition("?")
    path = unquote(rest.removeprefix("/"))
    if not rest.startswith("/") or not path:
        raise ConfigurationError(
            "a SQLite URL has three slashes and a path: sqlite:///shop.db (relative) or "
            "sqlite:////var/shop.db (absolute)"
        )
    check_parameters("a SQLite URL", query, (), "; a ? in the name of the file is written %3F")
    if path == ":memory:":
        raise ConfigurationError("SQLite in memory is not supported; use memory://")
    return path


def _given(notifier: Notifier) -> Notifier:
    return notifier


def _check_server_url(url: str) -> None:
    try:
        for place in urlsplit(url).netloc.rpartition("@")[2].split(","):  # there may be several
            _ = urlsplit(f"//{place}").port
    except ValueError:
        raise ConfigurationError(
            "the port in the store's URL is not a number; special characters in user and password "
            "must be percent-encoded"
        ) from None


def _load(module: str, name: str) -> Callable[..., Store]:
    """A store's class; its module, and with it its driver, is imported only now."""
    try:
        store: Callable[..., Store] = getattr(
            importlib.import_module(f"headway.stores.{module}"), name
        )
    except ImportError as error:
        if (error.name or "headway").partition(".")[0] == "headway":
            raise
        raise ConfigurationError(
            f"the {module} store needs a driver that is not installed ({error.name}): "
            f"pip install 'headway[{module}]'"
        ) from error
    return store
