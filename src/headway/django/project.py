"""The app of a Django project."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import django
from asgiref.sync import sync_to_async
from django.apps import apps
from django.conf import settings
from django.db import close_old_connections, connections

from headway.after_commit.effects import Effects
from headway.app import Headway
from headway.client.completion import SyncCompletion
from headway.client.references import Target
from headway.client.sync_headway import SyncHeadway
from headway.django.database import vendor
from headway.django.task_settings import queue_names
from headway.domain.request import SequenceReference
from headway.errors import ConfigurationError
from headway.jobs.handler import Handler, Mode
from headway.jobs.job_type import AnyType
from headway.notifiers.none import NoNotifier
from headway.notifiers.urls import notifier_from_url
from headway.ports.notifications import Notification
from headway.ports.notifier import Notifier, Reach
from headway.ports.store import Store
from headway.runtime.shared_resource import SharedResource

_log = logging.getLogger("headway")
_OPTIONS: dict[str, Any] = {
    "USING": "default",
    "SCHEMA": "headway",
    "PREFIX": "headway_",
    "NOTIFIER": None,
}


def project_app() -> DjangoHeadway:
    """The app that settings.HEADWAY describes. Sets Django up if that has not begun."""
    if not apps.ready and not getattr(apps, "loading", True):
        django.setup()
    return described_app()


@cache
def described_app() -> DjangoHeadway:
    given: Mapping[str, Any] = getattr(settings, "HEADWAY", {})
    for name in given:
        if name not in _OPTIONS:
            raise ConfigurationError(
                f"settings.HEADWAY has no option {name!r}; there are {', '.join(_OPTIONS)}"
            )
    options: dict[str, Any] = {**_OPTIONS, **given}
    return DjangoHeadway(
        options["USING"],
        schema=options["SCHEMA"],
        prefix=options["PREFIX"],
        notifier=options["NOTIFIER"],
    )


class DjangoHeadway(Headway):
    """Jobs in one of Django's databases.

    `app.sync` works on Django's own connection, and in the transaction that is open on it. Workers
    have their own connections; around each job they close Django's old connections, as Django does
    around a request.
    """

    def __init__(
        self,
        using: str = "default",
        *,
        schema: str = "headway",
        prefix: str = "headway_",
        notifier: str | None = None,
    ) -> None:
        self.using = using
        self.schema = schema
        self.prefix = prefix
        self._named_notifier = notifier
        worker_store, client_store, own = _adapters(using, schema, prefix)
        self._client_store = client_store
        super().__init__(
            worker_store,
            notifier=notifier_from_url(notifier, schema=schema) if notifier else own,
            migrate=False,
            schema=schema,
            prefix=prefix,
        )
        self._own_notifier = own

    def handlers(self) -> Mapping[str, Handler]:
        return {
            name: _with_fresh_connections(handler) for name, handler in super().handlers().items()
        }

    def worked_queues(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*super().worked_queues(), *queue_names())))

    def _make_sync(self) -> SyncHeadway:
        if self._named_notifier and self.notifier.reach <= Reach.PROCESS:
            notifier = self.notifier
        elif self._named_notifier:
            notifier = notifier_from_url(self._named_notifier, schema=self.schema)
        else:
            notifier = _ConnectionNotifier(self._client_store, self._own_notifier)
        return DjangoClient(self, self._client_store, notifier)


def _adapters(using: str, schema: str, prefix: str) -> tuple[Store, Store, Notifier]:
    """The stores of workers and of clients, and the notifier, for Django's database."""
    if vendor(using) == "postgresql":
        from headway.django import postgres  # noqa: PLC0415 - needs psycopg

        return (
            postgres.DjangoPostgresWorkerStore(using, schema=schema),
            postgres.DjangoPostgresClientStore(using, schema=schema),
            postgres.DjangoPostgresNotifier(using, schema=schema),
        )
    from headway.django import sqlite  # noqa: PLC0415 - only where it is SQLite

    return (
        sqlite.DjangoSqliteWorkerStore(using, prefix=prefix),
        sqlite.DjangoSqliteClientStore(using, prefix=prefix),
        sqlite.DjangoSqliteNotifier(using),
    )


class DjangoClient(SyncHeadway):
    """The sync client, on Django's connection."""

    def __init__(self, app: DjangoHeadway, store: Store, notifier: Notifier) -> None:
        super().__init__(
            SharedResource(store),
            SharedResource(notifier),
            registry=app.registry,
            observers=app.observers,
            codec=app.codec,
            clock=app.clock,
        )
        self._using = app.using
        self._needs_loop = not isinstance(notifier, _ConnectionNotifier)

    def open(self) -> None:
        if self._needs_loop:
            super().open()

    def complete_sequence(
        self,
        sequence: Target | SequenceReference[Any],
        type: AnyType | None = None,
        *,
        tx: Any = None,
    ) -> SyncCompletion[Any]:
        tx = self._open_transaction() if tx is None else tx
        if type is None:
            return super().complete_sequence(sequence, tx=tx)
        return super().complete_sequence(sequence, type, tx=tx)

    def _tell(self, tx: Any, effects: Effects) -> None:
        super()._tell(self._open_transaction() if tx is None else tx, effects)

    def _open_transaction(self) -> Any:
        connection: Any = connections[self._using]
        return connection if connection.in_atomic_block else None


class _ConnectionNotifier(NoNotifier):
    """Publishes on Django's connection, in a statement, if the workers' notifier can do so. On
    SQLite it cannot: there workers watch the file."""

    def __init__(self, store: Store, notifier: Notifier) -> None:
        self._store = store
        self._publish = notifier.within(store.name)

    def publish_soon(self, notifications: Sequence[Notification]) -> None:
        if self._publish is not None:
            try:
                self._store.run_sync(self._publish, notifications)
            except Exception:
                _log.exception(
                    "notifications cannot be published; workers find jobs by polling meanwhile"
                )


def _with_fresh_connections(handler: Handler) -> Handler:
    """Close broken and old connections of Django before and after each job, as around requests."""
    function = handler.function
    if handler.mode is Mode.THREAD:

        def in_thread(*args: Any, **kwargs: Any) -> Any:
            close_old_connections()
            try:
                return function(*args, **kwargs)
            finally:
                close_old_connections()

        return replace(handler, function=in_thread)
    if handler.mode is Mode.LOOP:

        async def on_loop(*args: Any, **kwargs: Any) -> Any:
            try:
                return await function(*args, **kwargs)
            finally:
                await _close_elsewhere()

        return replace(handler, function=on_loop)
    return handler


_close_elsewhere: Callable[[], Any] = sync_to_async(close_old_connections)
