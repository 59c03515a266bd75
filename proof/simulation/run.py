"""One simulation from its first moment to its last check."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import Callable, Generator
from datetime import datetime
from typing import Any

import msgspec

from headway.after_commit.observer_group import Observers
from headway.client.client import Client
from headway.domain.job import TERMINAL, JobState
from headway.worker.attempt import Attempt
from headway.worker.settings import WorkerSettings
from headway.worker.worker import Worker
from proof.simulation import actors, jobs
from proof.simulation.checker import Violation
from proof.simulation.loop import Deadlock, Livelock, SimulatedProcess, VirtualLoop
from proof.simulation.memory import WatchedRow
from proof.simulation.scenario import Fault, Scenario
from proof.simulation.store import SimulatedNotifier, SimulatedStore
from proof.simulation.world import HeartbeatTask, SimulatedClock, World

PATIENCE = 400.0
"""Virtual seconds that everything may take to end once the faults have stopped."""


class Outcome(msgspec.Struct):
    scenario: Scenario
    operations: int = 0
    transitions: int = 0
    executions: int = 0
    crashes: int = 0
    jobs: int = 0
    settled_after: float = 0.0
    """Virtual seconds from the end of the faults until everything had ended."""
    seconds: float = 0.0
    invariant: str | None = None
    detail: str = ""


def simulate(scenario: Scenario) -> Outcome:
    """Run a scenario; the same one goes the same way every time."""
    began = time.perf_counter()
    random.seed(scenario.seed)
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    world = World(scenario, loop)
    outcome = Outcome(scenario)
    with on_virtual_time(world):
        try:
            loop.run_until_complete(_Run(world, outcome).go())
        except Deadlock:
            world.fail(Violation("everything ends", "nothing is scheduled any more"))
        except Livelock:
            world.fail(Violation("everything ends", "something is scheduled again and again"))
        clear_away(loop)
    if world.violation is not None:
        outcome.invariant = world.violation.invariant
        outcome.detail = str(world.violation)
    outcome.operations = world.operations
    outcome.transitions = world.checker.transitions
    outcome.executions = world.executions
    outcome.jobs = len(world.checker.before)
    outcome.seconds = time.perf_counter() - began
    return outcome


def clear_away(loop: VirtualLoop) -> None:
    """End what is left of all processes while nothing that it does can have an effect."""
    loop.kill_all()
    for task in loop.created:
        if not task.done():
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine: Any = task.get_coro()
            with contextlib.suppress(BaseException):
                coroutine.close()
    loop.created.clear()
    asyncio.set_event_loop(None)
    loop.close()


class _Run:
    def __init__(self, world: World, outcome: Outcome) -> None:
        self._world = world
        self._outcome = outcome
        self._workers: list[tuple[SimulatedProcess, Worker]] = []
        self._names = 0

    async def go(self) -> None:
        world, scenario = self._world, self._world.scenario
        self._workers = [self._start_worker() for _ in range(scenario.workers)]
        producing = []
        for _ in range(2):
            process, client = self._client()
            producing.append(process.spawn(actors.produce(world, client, scenario.starts // 2)))
        process, client = self._client()
        process.spawn(actors.meddle(world, client))
        for fault in scenario.faults:
            world.loop.call_at(fault.at, self._strike, fault)
        await self._until(scenario.horizon, lambda: False)
        world.healed = True
        for place, (process, _) in enumerate(self._workers):
            if process.dead:
                self._workers[place] = self._start_worker()
        healed = world.loop.now
        await self._until(healed + scenario.horizon * 3, lambda: all(t.done() for t in producing))
        bound = world.loop.now + PATIENCE
        await self._until(bound, lambda: not self._open())
        self._outcome.settled_after = world.loop.now - healed
        if world.violation is None:
            self._check_end()

    async def _until(self, moment: float, enough: Callable[[], bool]) -> None:
        world = self._world
        while world.violation is None and world.loop.now < moment and not enough():
            await asyncio.wait({world.over}, timeout=min(1.0, moment - world.loop.now))

    def _process(self) -> SimulatedProcess:
        self._names += 1
        process = SimulatedProcess(f"process-{self._names}")
        process.world = self._world  # type: ignore[attr-defined]
        return process

    def _client(self) -> tuple[SimulatedProcess, Client]:
        process, world = self._process(), self._world
        client = Client(
            SimulatedStore(world, process),  # type: ignore[arg-type]
            notifier=SimulatedNotifier(world, process),
            registry=jobs.registry,
            observers=Observers(()),
            codec=jobs.codec,
            clock=SimulatedClock(world.loop),
        )
        return process, client

    def _start_worker(self) -> tuple[SimulatedProcess, Worker]:
        process, world = self._process(), self._world
        scenario = world.scenario
        settings = WorkerSettings(
            queues=("default", "effects"),
            concurrency=random.choice((1, 4, 10)),
            batch_size=random.choice((2, 20)),
            lease_for=scenario.lease,
            poll_every=0.5,
            reap_every=0.3,
            grace=scenario.lease,
            maintain_every=10.0,
            worker_id=process.name,
        )
        worker = Worker(
            SimulatedStore(world, process),  # type: ignore[arg-type]
            jobs.registry.handlers(),
            settings,
            notifier=SimulatedNotifier(world, process),
            clock=SimulatedClock(world.loop),
            heartbeat_runner=HeartbeatTask,
        )
        process.spawn(worker.run())
        return process, worker

    def _strike(self, fault: Fault) -> None:
        world = self._world
        process, worker = self._workers[fault.target % len(self._workers)]
        match fault.kind:
            case "crash":
                self._outcome.crashes += 1
                world.kill(process)
                world.loop.call_later(fault.seconds, self._replace, fault.target)
            case "restart":
                if not process.dead:
                    process.spawn(self._stop(process, worker))
                world.loop.call_later(fault.seconds, self._replace, fault.target)
            case "cut":
                world.cut(process, fault.seconds)
            case "jump":
                world.jump(fault.seconds)
            case _:
                raise ValueError(fault.kind)

    async def _stop(self, process: SimulatedProcess, worker: Worker) -> None:
        """Gracefully; then, unless something came in between, the worker holds nothing. Those that
        open a transaction are left out: one that outlives its lease and is rolled back then cannot
        give its job back, for the lease has run out."""
        world, scenario = self._world, self._world.scenario
        calm = not (scenario.slow or scenario.failing or scenario.unknown or scenario.jumps)
        strikes = [fault for fault in scenario.faults if fault.kind in {"cut", "crash"}]
        began = world.loop.now
        worker.request_stop()
        await process.tasks[0]
        if calm and not any(began - 10 < fault.at < world.loop.now for fault in strikes):
            held = [
                job_id
                for job_id, content in world.checker.before.items()
                if content.state is JobState.RUNNING
                and world.checker.rows[job_id].worker == process.name
                and world.checker.rows[job_id].spec.type in {"plain", "joined", "patient"}
            ]
            if held:
                world.fail(Violation("a worker that stopped holds nothing", f"{held}"))

    def _replace(self, place: int) -> None:
        if not self._world.healed:
            self._workers[place % len(self._workers)] = self._start_worker()

    def _open(self) -> list[str]:
        """Jobs that have not ended, and do not wait for one that has failed."""
        checker = self._world.checker
        return [
            job_id
            for job_id, content in checker.before.items()
            if content.state not in TERMINAL and not self._stuck(job_id)
        ]

    def _stuck(self, job_id: str) -> bool:
        """Blocked, rightly: behind a sequence that failed, was cancelled, or is stuck itself."""
        checker = self._world.checker
        if checker.before[job_id].state is not JobState.BLOCKED:
            return False
        for blocker in checker.rows[job_id].blockers:
            last = checker.sequences[blocker][-1]
            state = checker.before[last].state
            if state in (JobState.FAILED, JobState.CANCELLED) or self._stuck(last):
                return True
        return False

    def _check_end(self) -> None:
        world, checker = self._world, self._world.checker
        if left := self._open():
            said = {job_id: checker.before[job_id] for job_id in left[:3]}
            world.fail(Violation("everything ends", f"{len(left)} jobs have not ended: {said}"))
            return
        if lost := world.acknowledged - checker.before.keys():
            world.fail(Violation("nothing acknowledged is lost", f"{sorted(lost)[:5]}"))
            return
        for job_id, content in checker.before.items():
            row = world.memory.row(job_id)
            if row is None or row.state is not content.state:
                world.fail(Violation("nothing changes unseen", f"{job_id} is {row}"))
                return
            if row.spec.type in {"effect", "whole"} and row.worker is not None:
                version = checker.effects.get(job_id)
                wanted = content.version if content.state is JobState.COMPLETED else None
                if version != wanted:
                    what = f"{job_id} is {content.state}, its effect {version}"
                    world.fail(Violation("one effect per job", what))
                    return


@contextlib.contextmanager
def on_virtual_time(world: World) -> Generator[None]:
    """Replace, in all modules, what would differ from one run to the next: clocks, ids, hashes."""

    class VirtualDatetime(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return world.store_time()

    def moment(now: datetime | None) -> datetime:
        return world.store_time() if now is None else now

    replaced: list[tuple[Any, str, Any]] = []

    def replace(place: Any, name: str, value: Any) -> None:
        replaced.append((place, name, getattr(place, name, None)))
        setattr(place, name, value)

    for name, module in list(sys.modules.items()):
        if not name.startswith("headway."):
            continue
        for known in ("new_id", "new_token"):
            if hasattr(module, known):
                replace(module, known, world.new_id)
        if name.startswith("headway.stores.memory.") and hasattr(module, "moment"):
            replace(module, "moment", moment)
        if name in {
            "headway.worker.claims.claim_timing",
            "headway.after_commit.effects",
            "headway.worker.worker_run",
        }:
            replace(module, "datetime", VirtualDatetime)
        if name == "headway.limits.key_claim":
            replace(module, "monotonic", world.loop.time)
        if name in {"headway.stores.memory.insert", "headway.stores.memory.table"}:
            replace(module, "JobRow", WatchedRow)
    replace(Attempt, "__hash__", lambda self: hash((self.claimed.id, self.claimed.lease.token)))
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for place, name, value in reversed(replaced):
            setattr(place, name, value)
