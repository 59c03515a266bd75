"""Operations inside a transaction of the caller, on a connection of any driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any, ParamSpec, TypeVar, cast

from headway.errors import ConfigurationError, SchemaMissing
from headway.ports.provider import AsyncProvider, Provider, SyncProvider
from headway.ports.statement import Operation
from headway.runtime.cancellation import Cancels
from headway.stores.drive import drive, drive_sync

P = ParamSpec("P")
T = TypeVar("T")

_MISSING = ("42P01", "3F000")
"""PostgreSQL's codes for a table and a schema that do not exist."""
_PROVIDERS = {
    "aiosqlite": ("sqlite", "aiosqlite", ("Aiosqlite",)),
    "asyncpg": ("postgresql", "asyncpg", ("Asyncpg",)),
    "django": (None, "django", ("Django",)),
    "psycopg": ("postgresql", "psycopg", ("PsycopgAsync", "PsycopgSync")),
    "sqlalchemy.ext.asyncio": (None, "sqlalchemy_async", ("SqlAlchemyAsync",)),
    "sqlalchemy": (None, "sqlalchemy", ("SqlAlchemySync",)),
    "sqlite3": ("sqlite", "sqlite3", ("Sqlite3",)),
}
"""By the package that defines the class of a connection, or one of its base classes: the database
of the driver (None: several, so the provider is told which), and the classes of a module of
`headway.providers`. The module is imported when such a connection is passed."""


class CallerTransactions:
    """`run_in`, `run_in_sync` and `after_commit`, by the first provider that accepts `tx`."""

    name: str

    def __init__(self, database: str, providers: Sequence[Provider], expected: str) -> None:
        self._database = database
        self._providers = list(providers)
        self._expected = expected

    async def run_in(
        self, tx: Any, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        provider = self._provider(tx)
        if not _is_async(provider):
            return self._run_blocking(provider, tx, operation(*args, **kwargs))
        awaiting = cast("AsyncProvider", provider)
        prepared = self._prepared(operation(*args, **kwargs))
        try:
            with Cancels():
                return await drive(prepared, partial(awaiting.execute, tx))
        except Exception as error:
            self._explain(error)
            raise

    def run_in_sync(
        self, tx: Any, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        provider = self._provider(tx)
        if _is_async(provider):
            raise ConfigurationError(
                f"tx= is {_described(tx)}, which has to be awaited; "
                "use `await app.start(...)` instead of `app.sync.start(...)`"
            )
        return self._run_blocking(provider, tx, operation(*args, **kwargs))

    def _run_blocking(self, provider: Provider, tx: Any, operation: Operation[T]) -> T:
        blocking = cast("SyncProvider", provider)
        try:
            return drive_sync(self._prepared(operation), partial(blocking.execute, tx))
        except Exception as error:
            self._explain(error)
            raise

    def _prepared(self, operation: Operation[T]) -> Operation[T]:
        """The operation, after what the store could not do when it was opened."""
        return operation

    def _explain(self, error: Exception) -> None:
        """Raise SchemaMissing if the caller's connection does not find the tables."""
        if any(map(_is_missing_table, layers(error))):
            raise SchemaMissing(self.name) from error

    def after_commit(self, tx: Any, callback: Callable[[], None]) -> bool:
        return self._provider(tx).after_commit(tx, callback)

    def _provider(self, tx: object) -> Provider:
        for provider in self._providers:
            if provider.accepts(tx):
                return provider
        for provider in _find_providers(tx, self._database):
            if provider.accepts(tx):
                self._providers.append(provider)
                return provider
        raise ConfigurationError(
            f"tx= is {_described(tx)}, which cannot be used with {self.name}; pass {self._expected}"
        )


def _find_providers(tx: object, database: str) -> Sequence[Provider]:
    # A proxy around a connection, as tracing libraries have it, tells the connection's class.
    for ancestor in (*type(tx).__mro__, *getattr(tx.__class__, "__mro__", ())):
        for package, (only, name, classes) in _PROVIDERS.items():
            if not f"{ancestor.__module__}.".startswith(f"{package}."):
                continue
            if only not in (None, database):
                return ()
            module = import_module(f"headway.providers.{name}")
            arguments = () if only else (database,)
            return [getattr(module, each)(*arguments) for each in classes]
    return ()


def _is_async(provider: Provider) -> bool:
    return iscoroutinefunction(provider.execute)


def layers(error: BaseException) -> Iterator[BaseException]:
    """The error, and the driver's errors that SQLAlchemy and Django have wrapped in it."""
    layer: BaseException | None = error
    while layer is not None:
        yield layer
        layer = getattr(layer, "orig", None) or layer.__cause__


def _is_missing_table(error: BaseException) -> bool:
    return getattr(error, "sqlstate", None) in _MISSING or str(error).startswith("no such table:")


def is_missing_column(error: BaseException) -> bool:
    """Of a database that an older version has migrated."""
    said = str(error)
    return (
        getattr(error, "sqlstate", None) == "42703"
        or "no such column:" in said
        or " has no column named " in said
    )


def _described(tx: object) -> str:
    return f"a {type(tx).__module__}.{type(tx).__qualname__}"
