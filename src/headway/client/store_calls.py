"""Runs operations for a client, in the caller's transaction if there is one, and publishes their
effects.

`scripts/make_sync.py` makes sync_store_calls.py of this module: run `make sync` after a change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from headway.after_commit.effects import Effects
from headway.after_commit.observer_group import Observers
from headway.after_commit.publisher import Publisher
from headway.domain.events import StoreFailed
from headway.errors import StoreError
from headway.ports.clock import Clock
from headway.ports.statement import Operation
from headway.ports.store import Store
from headway.runtime.store_errors import in_short

P = ParamSpec("P")
T = TypeVar("T")


class StoreCalls:
    """The base of clients. Safe to use from any number of tasks."""

    def __init__(
        self, store: Store, *, observers: Observers, clock: Clock, publisher: Publisher
    ) -> None:
        self._store = store
        self._observers = observers
        self._clock = clock
        self._publisher = publisher

    async def _run(
        self, tx: Any, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        try:
            if tx is None:
                return await self._store.run(operation, *args, **kwargs)
            return await self._store.run_in(tx, operation, *args, **kwargs)
        except StoreError as error:
            self._observers.observe(StoreFailed(None, "client", in_short(error)))
            raise

    async def _tell(self, tx: Any, effects: Effects) -> None:
        if tx is None:
            await self._publisher.publish(effects)
        else:
            await self._publisher.publish_with(tx, effects)
