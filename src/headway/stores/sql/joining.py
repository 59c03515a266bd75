"""Running operations inside a transaction that belongs to the caller, on whatever driver it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ParamSpec, TypeVar

from headway.domain.errors import ConfigurationError
from headway.ports.provider import AsyncProvider, SyncProvider
from headway.ports.statement import Operation
from headway.stores.sql.driving import drive, drive_sync

P = ParamSpec("P")
T = TypeVar("T")


class Joining:
    """`run_in`, `run_in_sync` and `after_commit`, by the first provider that knows the driver."""

    name: str

    def __init__(
        self,
        async_providers: Sequence[AsyncProvider],
        sync_providers: Sequence[SyncProvider],
        expected: str,
    ) -> None:
        self._async_providers = async_providers
        self._sync_providers = sync_providers
        self._expected = expected

    async def run_in(
        self, tx: Any, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        for provider in self._async_providers:
            if provider.accepts(tx):
                return await drive(operation(*args, **kwargs), partial(provider.execute, tx))
        return self.run_in_sync(tx, operation, *args, **kwargs)

    def run_in_sync(
        self, tx: Any, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        for provider in self._sync_providers:
            if provider.accepts(tx):
                return drive_sync(operation(*args, **kwargs), partial(provider.execute, tx))
        raise ConfigurationError(
            f"tx= is a {type(tx).__module__}.{type(tx).__qualname__}, which cannot be used with "
            f"{self.name}; pass {self._expected}"
        )

    def after_commit(self, tx: Any, callback: Callable[[], None]) -> bool:
        providers: list[AsyncProvider | SyncProvider] = [
            *self._async_providers,
            *self._sync_providers,
        ]
        for provider in providers:
            if provider.accepts(tx):
                return provider.after_commit(tx, callback)
        return False
