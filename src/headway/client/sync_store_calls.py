# Made from store_calls.py by scripts/make_sync.py: change that, then run `make sync`.
"""Runs operations for a sync client, and publishes their effects."""

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


class SyncStoreCalls:
    """The base of clients. Safe to use from any number of threads."""

    def __init__(
        self, store: Store, *, observers: Observers, clock: Clock, publisher: Publisher
    ) -> None:
        self._store = store
        self._observers = observers
        self._clock = clock
        self._publisher = publisher

    def _run(
        self, tx: Any, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        try:
            if tx is None:
                return self._store.run_sync(operation, *args, **kwargs)
            return self._store.run_in_sync(tx, operation, *args, **kwargs)
        except StoreError as error:
            self._observers.observe(StoreFailed(None, "client", in_short(error)))
            raise

    def _tell(self, tx: Any, effects: Effects) -> None:
        if tx is None:
            self._publisher.publish_soon(effects)
        else:
            self._publisher.publish_with_sync(tx, effects)
