"""Running operations inside a transaction that belongs to the caller, on whatever driver it has."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, ParamSpec, TypeVar, cast

from headway.errors import ConfigurationError, SchemaMissing
from headway.ports.provider import AsyncProvider, Provider, SyncProvider
from headway.ports.statement import Operation
from headway.providers.lookup import providers_for
from headway.runtime.cancellation import Cancels
from headway.stores.sql.drive import drive, drive_sync

P = ParamSpec("P")
T = TypeVar("T")

_MISSING = ("42P01", "3F000")
"""PostgreSQL's codes for a table and a schema that do not exist."""


class Joining:
    """`run_in`, `run_in_sync` and `after_commit`, by the first provider that knows the driver."""

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
        try:
            with Cancels():
                return await drive(operation(*args, **kwargs), partial(awaiting.execute, tx))
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
            return drive_sync(operation, partial(blocking.execute, tx))
        except Exception as error:
            self._explain(error)
            raise

    def _explain(self, error: Exception) -> None:
        """Raise what says what to do, where the tables are missing on the caller's connection."""
        if any(map(_is_missing_table, layers(error))):
            raise SchemaMissing(self.name) from error

    def after_commit(self, tx: Any, callback: Callable[[], None]) -> bool:
        return self._provider(tx).after_commit(tx, callback)

    def _provider(self, tx: object) -> Provider:
        for provider in self._providers:
            if provider.accepts(tx):
                return provider
        for provider in providers_for(tx, self._database):
            if provider.accepts(tx):
                self._providers.append(provider)
                return provider
        raise ConfigurationError(
            f"tx= is {_described(tx)}, which cannot be used with {self.name}; pass {self._expected}"
        )


def _is_async(provider: Provider) -> bool:
    return iscoroutinefunction(provider.execute)


def layers(error: BaseException) -> Iterator[BaseException]:
    """The error, and those of the drivers that SQLAlchemy and Django have wrapped in it."""
    layer: BaseException | None = error
    while layer is not None:
        yield layer
        layer = getattr(layer, "orig", None) or layer.__cause__


def _is_missing_table(error: BaseException) -> bool:
    return getattr(error, "sqlstate", None) in _MISSING or str(error).startswith("no such table:")


def _described(tx: object) -> str:
    return f"a {type(tx).__module__}.{type(tx).__qualname__}"
