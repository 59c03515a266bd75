"""A store or notifier with several users: the first one opens it, the last one closes it."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar, cast

from headway.ports.notifier import Notifier
from headway.ports.store import Store
from headway.runtime.cancellation import Cancels
from headway.runtime.forks import Forkable

T = TypeVar("T", bound=Store | Notifier)


class SharedResource(Forkable, Generic[T]):
    def __init__(self, resource: T, *, migrate: bool = False) -> None:
        """`migrate` brings the schema of a store up to date when it is opened."""
        self.resource = resource
        self._migrate = migrate
        self.in_child()
        self.watch_forks()

    def in_child(self) -> None:
        self._lock = asyncio.Lock()
        self._users = 0

    async def open(self) -> None:
        async with self._lock:
            if self._users == 0:
                try:
                    with Cancels():
                        if self._migrate:
                            await cast("Store", self.resource).open(migrate=True)
                        else:
                            await self.resource.open()
                except BaseException:
                    await self.resource.close()
                    raise
            self._users += 1

    async def close(self) -> None:
        async with self._lock:
            if self._users == 0:
                return
            self._users -= 1
            if self._users:
                return
            await self.resource.close()
        self._lock = asyncio.Lock()  # the next user may run on another loop


async def open_both(store: SharedResource[Store], notifier: SharedResource[Notifier]) -> None:
    await store.open()
    try:
        await notifier.open()
    except BaseException:
        await store.close()
        raise


async def close_both(store: SharedResource[Store], notifier: SharedResource[Notifier]) -> None:
    try:
        await notifier.close()
    finally:
        await store.close()
