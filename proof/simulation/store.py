"""The store as one simulated process sees it: through a network that is slow, cut, and forgets to
bring the answer; and the notifier, which loses and doubles what it carries."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from headway.domain.retry import Backoff
from headway.errors import StoreUnreachable
from headway.ports.notifications import EVERYTHING, Interest, Notification
from headway.ports.notifier import Disposer, Listener, Reach, StatusListener
from headway.ports.statement import Operation
from headway.ports.store import Capabilities, MigrationStatus
from headway.stores.memory.transaction import MemoryTransaction
from headway.stores.operation_retry import OperationRetry, once_more
from proof.simulation.loop import SimulatedProcess

if TYPE_CHECKING:
    from proof.simulation.world import World

T = TypeVar("T")

_RETRIES = [
    OperationRetry(tries=tries, backoff=Backoff(base=0.02, cap=0.5, random=random.random))
    for tries in (1, 2, 3)
]


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, StoreUnreachable)


class SimulatedStore:
    """Runs the operations of the one memory store. Everything that is not about running them, and
    the verbs themselves, is that store's own."""

    name = "simulated"
    capabilities = Capabilities(durable=True, across_processes=True, transactions=True)

    def __init__(self, world: World, process: SimulatedProcess) -> None:
        self._world = world
        self._process = process
        self._memory = world.memory
        self._operation_retry = random.choice(_RETRIES)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)

    async def open(self, *, migrate: bool = False) -> None: ...

    async def close(self) -> None: ...

    async def migrate(self) -> list[str]:
        return []

    async def migration_status(self) -> list[MigrationStatus]:
        return []

    def migration_script(self, *, after: int = 0) -> str:
        return ""

    async def run(self, operation: Callable[..., Operation[T]], /, *args: Any, **kwargs: Any) -> T:
        made = partial(operation, *args, **kwargs)

        async def attempt() -> T:
            nonlocal made
            this, made = made, once_more(made)
            return await self._attempt(this)

        return await self._operation_retry.run(attempt, _is_transient)

    async def run_in(
        self, tx: Any, operation: Callable[..., Operation[T]], /, *args: Any, **kwargs: Any
    ) -> T:
        try:
            fate = await self._travel()
            if tx not in self._world.transactions:
                raise StoreUnreachable(self.name, "the connection is gone")
            answer = await self._memory.run_in(tx, operation, *args, **kwargs)
            await self._return(fate)
        except StoreUnreachable:
            self._world.end(tx, commit=False)  # the server notices that the connection is gone
            raise
        return answer

    def after_commit(self, tx: Any, callback: Callable[[], None]) -> bool:
        return self._memory.after_commit(tx, callback)

    def begin(self) -> AbstractAsyncContextManager[MemoryTransaction]:
        return self._begin()

    @asynccontextmanager
    async def _begin(self) -> AsyncGenerator[MemoryTransaction]:
        await self._return(await self._travel())
        tx = self._world.begin(self._process)
        try:
            yield tx
        except BaseException:
            self._world.end(tx, commit=False)
            raise
        try:
            fate = await self._travel()
        except BaseException:
            self._world.end(tx, commit=False)
            raise
        if tx not in self._world.transactions:
            raise StoreUnreachable(self.name, "the connection is gone")
        self._world.end(tx, commit=True)
        await self._return(fate)

    def expect(self, queue: str, run_at: datetime | None) -> None: ...

    async def _attempt(self, made: partial[Operation[T]]) -> T:
        fate = await self._travel()
        answer = await self._memory.run(made.func, *made.args, **made.keywords)
        await self._return(fate)
        return answer

    async def _travel(self) -> bool:
        """On the way to the store; whether the answer will be lost."""
        world = self._world
        world.operations += 1
        if world.healed:
            await asyncio.sleep(0.001)
            return False
        chance, scenario = random.random, world.scenario
        if chance() < scenario.slow:
            await asyncio.sleep(chance() * scenario.lease)
        else:
            await asyncio.sleep(chance() * 0.01)
        if world.is_cut(self._process):
            await asyncio.sleep(chance() * scenario.lease / 2)
            raise StoreUnreachable(self.name, "no answer")
        if chance() < scenario.failing:
            raise StoreUnreachable(self.name, "refused")
        return chance() < scenario.unknown

    async def _return(self, lost: bool) -> None:
        world = self._world
        if world.healed:
            return
        if random.random() < world.scenario.slow:
            await asyncio.sleep(random.random() * world.scenario.lease)
        if lost or world.is_cut(self._process):
            raise StoreUnreachable(self.name, "the answer was lost")


class SimulatedNotifier:
    def __init__(self, world: World, process: SimulatedProcess) -> None:
        self._world = world
        self._process = process
        self.reach = random.choice(tuple(Reach))

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def wants(self, kind: type[Notification]) -> bool:
        return True

    def within(self, store: str) -> None:
        return None

    async def publish(self, notifications: Sequence[Notification]) -> None:
        self.publish_soon(notifications)

    def publish_soon(self, notifications: Sequence[Notification]) -> None:
        if not self._process.dead:
            self._world.publish(self._process, notifications)

    async def subscribe(
        self,
        listener: Listener,
        interest: Interest = EVERYTHING,
        *,
        idle: Callable[[], bool] = lambda: True,
        on_status: StatusListener = lambda _: None,
    ) -> Disposer:
        return self._world.subscribe(self._process, listener)
