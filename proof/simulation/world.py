"""Everything around clients and workers: processes that die, a store behind a bad network, a clock
that jumps, and somebody who writes down what really happened."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from headway.errors import StoreUnreachable
from headway.ports.notifications import Notification
from headway.ports.notifier import Disposer, Listener
from headway.ports.store import Store
from headway.stores.memory.transaction import MemoryTransaction
from headway.worker.leases.heartbeat_thread import Beats
from proof.simulation.checker import Checker, Violation
from proof.simulation.loop import PROCESS, SimulatedProcess, VirtualLoop
from proof.simulation.memory import Changed, WatchedMemory
from proof.simulation.scenario import Scenario

BEGINNING = datetime(2030, 1, 1, tzinfo=UTC)
RESUMED = 0.01
"""Seconds in which a worker that was frozen finds that its leases have run out."""


class World:
    def __init__(self, scenario: Scenario, loop: VirtualLoop) -> None:
        self.scenario = scenario
        self.loop = loop
        self.operations = 0
        self.healed = False
        self.violation: Violation | None = None
        self.patience = timedelta(seconds=scenario.horizon)
        """For how long jobs that ask to be run again later go on doing so."""
        self.checker = Checker(self)
        self.memory = WatchedMemory(self)
        self.transactions: dict[MemoryTransaction, SimulatedProcess] = {}
        self.acknowledged: set[str] = set()
        """Ids of sequences whose start was answered."""
        self.runs: dict[tuple[str, int], SimulatedProcess] = {}
        """Handlers that run at this moment, by job and lease version."""
        self.executions = 0
        self._jumped = timedelta()
        self._cuts: dict[SimulatedProcess, float] = {}
        self._listeners: dict[object, tuple[SimulatedProcess, Listener]] = {}
        self._serial = 0
        self.over: asyncio.Future[None] = loop.create_future()

    # The store's clock.

    def store_time(self) -> datetime:
        return BEGINNING + self._jumped + timedelta(microseconds=round(self.loop.now * 1e6))

    def clock_has_jumped(self) -> bool:
        return bool(self._jumped)

    def jump(self, seconds: float) -> None:
        self._jumped += timedelta(seconds=seconds)

    # Processes.

    def kill(self, process: SimulatedProcess) -> None:
        if process.dead:
            return
        self.loop.kill(process)
        for tx, owner in list(self.transactions.items()):
            if owner is process:  # the server needs a moment to see that nobody is there any more
                self.loop.call_later(random.random(), self.end, tx, False)
        for key in [key for key, owner in self._listeners.items() if owner[0] is process]:
            del self._listeners[key]
        for key in [key for key, owner in self.runs.items() if owner is process]:
            del self.runs[key]

    def cut(self, process: SimulatedProcess, seconds: float) -> None:
        self._cuts[process] = self.loop.now + seconds

    def is_cut(self, process: SimulatedProcess) -> bool:
        return self._cuts.get(process, 0.0) > self.loop.now

    # Transactions.

    def begin(self, process: SimulatedProcess) -> MemoryTransaction:
        tx = self.memory.begin()
        assert isinstance(tx, MemoryTransaction)
        tx.__enter__()
        self.transactions[tx] = process
        return tx

    def end(self, tx: MemoryTransaction, commit: bool) -> None:
        if self.transactions.pop(tx, None) is not None:
            tx.__exit__(None if commit else StoreUnreachable, None, None)

    # Notifications.

    def subscribe(self, process: SimulatedProcess, listener: Listener) -> Disposer:
        key = object()
        self._listeners[key] = process, listener

        async def dispose() -> None:
            self._listeners.pop(key, None)

        return dispose

    def publish(self, process: SimulatedProcess, notifications: Sequence[Notification]) -> None:
        for each in notifications:
            self._watch(self.checker.published, each)
        if not self.healed and self.is_cut(process):
            return
        for key, (listening, _) in list(self._listeners.items()):
            copies = 1
            if not self.healed:
                copies -= random.random() < self.scenario.lost_notifications
                copies += random.random() < self.scenario.doubled_notifications
            for _ in range(copies):
                delay = random.random() * 0.05
                self.loop.call_later(
                    delay,
                    self._deliver,
                    key,
                    tuple(notifications),
                    context=listening.context.copy(),
                )

    def _deliver(self, key: object, notifications: Sequence[Notification]) -> None:
        if key in self._listeners:
            for each in notifications:
                self._listeners[key][1](each)

    # What the checker hears; an error must not be caught by those who are being tried.

    def operated(
        self,
        operation: Callable[..., Any],
        arguments: tuple[Any, ...],
        options: dict[str, Any],
        tx: MemoryTransaction | None,
        answer: Any,
        changed: Changed,
    ) -> None:
        self._watch(self.checker.operated, operation, arguments, options, tx, answer, changed)

    def committed(self, tx: MemoryTransaction, changed: Changed) -> None:
        self._watch(self.checker.committed, tx, changed)

    def rolled_back(self, tx: MemoryTransaction, changed: Changed) -> None:
        self._watch(self.checker.rolled_back, tx, changed)

    def _watch(self, check: Callable[..., None], *args: Any) -> None:
        if self.violation is None:
            try:
                check(*args)
            except Violation as violation:
                self.fail(violation)

    def fail(self, violation: Violation) -> None:
        if self.violation is None:
            self.violation = violation
            if not self.over.done():
                self.over.set_result(None)

    # What handlers say of themselves.

    def still_runs(self, job_id: str, version: int) -> bool:
        """A handler of a frozen process does not run, nor does one at the moment that it is
        resumed: its worker has yet to see the time."""
        process = self.runs.get((job_id, version))
        return process is not None and process.frozen_until + RESUMED < self.loop.now

    def new_id(self) -> str:
        self._serial += 1
        return f"00000000-0000-7000-8000-{self._serial:012x}"


def current_world() -> World:
    process = PROCESS.get()
    if process is None:
        raise RuntimeError("this runs in no simulated process")
    world: World = process.world  # type: ignore[attr-defined]
    return world


class HeartbeatTask:
    """Beats on the virtual loop: there are no threads in a simulation."""

    apart = False

    def __init__(self, store: Store) -> None:
        self._store = store
        self._wake = asyncio.Event()

    def start(self, beats: Beats) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(beats))

    def wake(self) -> None:
        self._wake.set()

    def join(self) -> None: ...

    async def _run(self, beats: Beats) -> None:
        try:
            wanted = next(beats)
            while True:
                if isinstance(wanted, float | int):
                    try:
                        async with asyncio.timeout(wanted):
                            await self._wake.wait()
                    except TimeoutError:
                        pass
                    self._wake.clear()
                    wanted = next(beats)
                    continue
                try:
                    answer = await wanted(self._store.run)
                except Exception as error:
                    wanted = beats.throw(error)
                else:
                    wanted = beats.send(answer)
        except StopIteration:
            pass


class SimulatedClock:
    """Of one process: its own monotonic time; what is stored goes by the store's clock."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> datetime | None:
        return None

    def monotonic(self) -> float:
        return self._loop.now
