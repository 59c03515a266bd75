"""Queues with limits on virtual time: workers are killed before and after their calls of the store,
frozen and cut off, answers are lost, limits overridden, queues held. After every operation no limit
is exceeded; in the end nothing is stuck."""

from __future__ import annotations

import argparse
import asyncio
import contextvars
import random
import sys
import time
from collections import Counter, defaultdict, deque
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from headway import After, Backoff, Job, Rate
from headway.after_commit.observer_group import Observers
from headway.client.client import Client
from headway.domain.job import TERMINAL, JobState
from headway.domain.limits.queue_limits import LimitsOverride, QueueLimits
from headway.errors import HeadwayError
from headway.jobs.codec import JsonCodec
from headway.jobs.decorators import JobDecorator
from headway.jobs.registry import Registry
from headway.limits.changes import override
from headway.ports.notifications import ANY_TYPE, JobsScheduled
from headway.ports.statement import Operation
from headway.stores.memory.transaction import MemoryTransaction
from headway.worker.settings import WorkerSettings
from headway.worker.worker import Worker
from proof.simulation import jobs
from proof.simulation.checker import Act, Checker, Violation
from proof.simulation.loop import Deadlock, Livelock, SimulatedProcess, VirtualLoop
from proof.simulation.memory import Changed
from proof.simulation.run import clear_away, on_virtual_time
from proof.simulation.scenario import Scenario
from proof.simulation.store import SimulatedNotifier, SimulatedStore
from proof.simulation.world import HeartbeatTask, SimulatedClock, World

T = TypeVar("T")

WORKERS = 3
HORIZON = 20.0
"""Virtual seconds during which jobs are started."""
STARTS = 80
PATIENCE = 200.0
"""Virtual seconds in which everything ends afterwards."""
UNUSED = 1.0
"""Virtual seconds that a permit may stay unused in a calm history, while a due job waits for it and
a worker is idle."""
CALLS = ("claim_limited", "claim", "settle", "hold", "spend", "declare")
QUEUES = {
    "capped": QueueLimits(running=3),
    "keyed": QueueLimits(per_key=1),
    "rated": QueueLimits(rate=Rate(6, per=2.0, burst=3)),
    "mixed": QueueLimits(running=4, per_key=2, rate=Rate(20, per=2.0, burst=5), fair=True),
}
CHANGES: tuple[tuple[str, LimitsOverride | None], ...] = (
    ("capped", LimitsOverride(running=1)),
    ("capped", LimitsOverride(running=5)),
    ("keyed", LimitsOverride(per_key=2)),
    ("rated", LimitsOverride(rate=Rate(2, per=1.0))),
    ("mixed", LimitsOverride(running=2, per_key=1)),
    *((queue, None) for queue in QUEUES),
)

registry = Registry()
job_type = JobDecorator(registry, JsonCodec())(
    max_attempts=6, max_losses=50, retry=Backoff(base=0.5, cap=30.0)
)


@job_type
async def limited(job: Job, number: int) -> int:
    with jobs._running(job) as world:
        await jobs._work(world)
    return number


@job_type
async def spending(job: Job, weight: int) -> None:
    with jobs._running(job) as world:
        job.spent(weight)
        await jobs._work(world)


@job_type
async def holding(job: Job, number: int) -> None:
    """Has its queue or its key wait, unless it is late."""
    with jobs._running(job) as world:
        await jobs._work(world)
        if random.random() < 0.3 and not world.healed:
            job.hold(After(seconds=random.random() * 3), key=random.random() < 0.5)


class History(msgspec.Struct):
    seed: int
    calm: bool = False
    """No faults: permits must be used without delay."""
    operations: int = 0
    starts: int = 0
    refused: int = 0
    """Claims from queues with limits that gave nothing."""
    kills: dict[str, int] = {}
    """By call and phase."""
    freezes: int = 0
    seconds: float = 0.0
    invariant: str | None = None
    detail: str = ""


def simulate_limits(seed: int) -> History:
    """The same seed goes the same way every time. Every third history is calm."""
    began = time.perf_counter()
    random.seed(seed)
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    history = History(seed, calm=seed % 3 == 0)
    slow, failing, unknown = random.choice(((0.0, 0.0, 0.0), (0.02, 0.05, 0.05)))
    if history.calm:
        slow = failing = unknown = 0.0
    scenario = Scenario(
        seed=seed,
        workers=WORKERS,
        lease=2.0,
        horizon=HORIZON,
        slow=slow,
        failing=failing,
        unknown=unknown,
        lost_notifications=0.0 if history.calm else random.choice((0.0, 0.2, 1.0)),
        features=() if history.calm else ("failures",),
    )
    world = World(scenario, loop)
    world.checker = checker = LimitChecker(world)
    with on_virtual_time(world):
        try:
            loop.run_until_complete(_Run(world, checker, history).go())
        except Deadlock:
            world.fail(Violation("everything ends", "nothing is scheduled any more"))
        except Livelock:
            world.fail(Violation("everything ends", "something is scheduled again and again"))
        clear_away(loop)
    if world.violation is not None:
        history.invariant, history.detail = world.violation.invariant, str(world.violation)
    history.operations = world.operations
    history.starts, history.refused = checker.starts, checker.refused
    history.seconds = time.perf_counter() - began
    return history


class LimitChecker(Checker):
    """The invariants of jobs, and those of limits: by the rows, the stored limits and what was
    asked of the store."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._memory_of = world
        self.running: dict[str, dict[str, str | None]] = defaultdict(dict)
        """Jobs and their keys, by queue."""
        self.starts = 0
        self.refused = 0
        self._paid: dict[str, deque[tuple[datetime, int]]] = defaultdict(deque)
        """Starts and what was spent, in the last window of the rate."""
        self._rates: dict[str, Rate | None] = {}
        self._held: dict[tuple[str, str | None], datetime] = {}

    def operated(
        self,
        operation: Any,
        arguments: tuple[Any, ...],
        options: dict[str, Any],
        tx: MemoryTransaction | None,
        answer: Any,
        changed: Changed,
    ) -> None:
        super().operated(operation, arguments, options, tx, answer, changed)
        now = self._world.store_time()
        match operation.__name__:
            case "hold":
                _, queue, key, _ = arguments
                self._held[queue, key] = max(self._held.get((queue, key), answer), answer)
            case "spend":
                for queue, weight in arguments[1]:
                    self._paid[queue].append((now, weight))
            case "claim_limited" if not answer.jobs:
                self.refused += 1
            case _:
                pass

    def in_effect(self, queue: str, limit: str) -> Any:
        """The limit as declared, unless an operator has set another."""
        state = self._memory_of.memory._limits.get(queue)
        if state is None or state.limits is None:
            return None
        if state.limits.override is not None:
            value = getattr(state.limits.override, limit)
            if value is not UNSET:
                return value
        return getattr(state.limits.declared, limit)

    def _compare(self, act: Act, changed: Changed) -> None:
        started: list[str] = []
        for job_id, row in changed.items():
            before = self.before.get(job_id)
            if row is not None and row.state is JobState.RUNNING:
                self.running[row.spec.queue][job_id] = row.spec.key
                if before is None or before.version != row.version:
                    started.append(job_id)
            elif row is not None:
                self.running[row.spec.queue].pop(job_id, None)
        super()._compare(act, changed)
        for job_id in started:
            self._check_start(job_id)

    def _check_start(self, job_id: str) -> None:
        spec, now = self.rows[job_id].spec, self._world.store_time()
        queue, key = spec.queue, spec.key
        self.starts += 1
        running = self.running[queue]
        cap, per_key = (self.in_effect(queue, each) for each in ("running", "per_key"))
        what = f"{queue}, key {key}"
        if cap is not None and len(running) > cap:
            raise Violation("never above a cap", f"{what}: {len(running)} of {cap} run")
        if per_key is not None and key is not None:
            count = sum(each == key for each in running.values())
            if count > per_key:
                raise Violation("never above a cap", f"{what}: {count} of {per_key} run")
        for place in ((queue, None), (queue, key)):
            if (until := self._held.get(place)) is not None and until > now:
                raise Violation("holds are kept", f"{what}: held until {until}, started at {now}")
        self._check_rate(queue, self.in_effect(queue, "rate"), now)

    def _check_rate(self, queue: str, rate: Rate | None, now: datetime) -> None:
        paid = self._paid[queue]
        if self._rates.get(queue) != rate:
            self._rates[queue] = rate
            paid.clear()
        if rate is None:
            return
        paid.append((now, 1))
        while paid[0][0] <= now - timedelta(seconds=rate.per):
            paid.popleft()
        count = sum(weight for _, weight in paid)
        if count > rate.limit:
            raise Violation("never above a rate", f"{queue}: {count} starts in {rate.per} s")


class _MortalStore(SimulatedStore):
    """The store of a worker that may die before or after a call."""

    def __init__(self, world: World, process: SimulatedProcess, run: _Run) -> None:
        super().__init__(world, process)
        self._run = run

    async def _attempt(self, made: partial[Operation[T]]) -> T:
        fate = await self._travel()
        name = made.func.__name__
        await self._die(name, "before")
        answer = await self._memory.run(made.func, *made.args, **made.keywords)
        await self._die(name, "after")
        await self._return(fate)
        return answer

    async def _die(self, call: str, phase: str) -> None:
        if self._run.kills(call, phase):
            self._run.kill(self._process)
            await asyncio.sleep(0)  # it does not come back


class _Run:
    def __init__(self, world: World, checker: LimitChecker, history: History) -> None:
        self._world = world
        self._checker = checker
        self._history = history
        self._names = 0
        self._workers: dict[int, SimulatedProcess] = {}
        self._slots: dict[str, int] = {}
        """By the name of a worker."""
        self._kills: Counter[str] = Counter()
        self._unused = 0.0

    async def go(self) -> None:
        world, history = self._world, self._history
        for place in range(WORKERS):
            self._start(place)
        producer, operator = self._process(), self._process()
        producing = producer.spawn(self._produce(producer))
        operator.spawn(self._operate(operator))
        if not history.calm:
            for _ in range(8):
                self._later(random.uniform(0, HORIZON), self._strike)
        await self._until(HORIZON, lambda: False)
        world.healed = True
        for place, process in list(self._workers.items()):
            if process.dead:
                self._start(place)
        await self._until(HORIZON + PATIENCE, lambda: producing.done() and not self._open())
        history.kills = dict(sorted(self._kills.items()))
        if world.violation is None and (left := self._open()):
            said = {each: self._checker.before[each] for each in left[:3]}
            world.fail(Violation("everything ends", f"{len(left)} jobs have not ended: {said}"))

    async def _until(self, moment: float, enough: Any) -> None:
        world = self._world
        while world.violation is None and world.loop.now < moment and not enough():
            await asyncio.wait({world.over}, timeout=min(0.25, moment - world.loop.now))
            if self._history.calm:
                self._look_at_permits()

    def _open(self) -> list[str]:
        before = self._checker.before
        return [job_id for job_id, content in before.items() if content.state not in TERMINAL]

    def _later(self, seconds: float, call: Any, *args: Any) -> None:
        # In no process, so that it happens whoever dies.
        self._world.loop.call_later(seconds, call, *args, context=contextvars.Context())

    def _process(self) -> SimulatedProcess:
        self._names += 1
        process = SimulatedProcess(f"process-{self._names}")
        process.world = self._world  # type: ignore[attr-defined]
        return process

    # Jobs, and an operator.

    async def _produce(self, process: SimulatedProcess) -> None:
        world = self._world
        client = Client(
            SimulatedStore(world, process),  # type: ignore[arg-type]
            notifier=SimulatedNotifier(world, process),
            registry=registry,
            observers=Observers(()),
            codec=jobs.codec,
            clock=SimulatedClock(world.loop),
        )
        for number in range(STARTS):
            await asyncio.sleep(random.expovariate(STARTS / HORIZON))
            queue = random.choice(tuple(QUEUES))
            key = f"key-{random.randrange(4)}" if queue in ("keyed", "mixed") else None
            kind: Any = spending if queue == "rated" else limited
            if queue == "mixed" and random.random() < 0.3:
                kind = holding
            request = kind.request(number if kind is limited else 1)
            many = random.choice((1, 1, 1, 6))
            options: dict[str, Any] = {"queue": queue, "key": key, "priority": number % 2}
            try:
                await client.start_many([request.using(**options) for _ in range(many)])
            except HeadwayError:
                continue

    async def _operate(self, process: SimulatedProcess) -> None:
        world = self._world
        store: Any = SimulatedStore(world, process)
        notifier = SimulatedNotifier(world, process)
        while not world.healed:
            await asyncio.sleep(random.expovariate(0.5))
            await self._override(store, notifier, *random.choice(CHANGES))
        for queue in QUEUES:
            await self._override(store, notifier, queue, None)

    async def _override(
        self, store: Any, notifier: SimulatedNotifier, queue: str, change: LimitsOverride | None
    ) -> None:
        try:
            await store.run(override, store, queue, change)
        except HeadwayError:
            return
        await notifier.publish([JobsScheduled(queue, ANY_TYPE, 0)])

    # Workers, and what happens to them.

    def _start(self, place: int) -> None:
        known = self._workers.get(place)
        if known is not None and not known.dead:
            return
        world, process = self._world, self._process()
        self._workers[place] = process
        concurrency = random.choice((2, 4, 10))
        self._slots[process.name] = concurrency
        worker = Worker(
            _MortalStore(world, process, self),  # type: ignore[arg-type]
            registry.handlers(),
            WorkerSettings(
                queues=tuple(QUEUES),
                concurrency=concurrency,
                lease_for=world.scenario.lease,
                poll_every=1_000.0 if self._history.calm else 0.5,
                reap_every=0.3,
                maintain_every=10.0,
                worker_id=process.name,
            ),
            notifier=SimulatedNotifier(world, process),
            clock=SimulatedClock(world.loop),
            heartbeat_runner=HeartbeatTask,
            limits=QUEUES,
        )
        process.spawn(worker.run())

    def kills(self, call: str, phase: str) -> bool:
        """Whether a worker dies here."""
        if self._history.calm or self._world.healed or call not in CALLS:
            return False
        if random.random() >= 0.01:
            return False
        self._kills[f"{phase} {call}"] += 1
        return True

    def kill(self, process: SimulatedProcess) -> None:
        self._world.kill(process)
        for place, known in self._workers.items():
            if known is process:
                self._later(random.choice((0.1, 1.0, 5.0)), self._start, place)

    def _strike(self) -> None:
        process = self._workers[random.randrange(WORKERS)]
        if process.dead or self._world.healed:
            return
        match random.randrange(3):
            case 0:
                self._kills["between calls"] += 1
                self.kill(process)
            case 1:
                self._world.cut(process, random.uniform(0.5, 5.0))
            case _:
                self._history.freezes += 1
                self._world.loop.freeze(process, random.uniform(0.5, 5.0))

    def _look_at_permits(self) -> None:
        """In a calm history: no permit stays unused while a due job waits and a worker is idle."""
        world, checker = self._world, self._checker
        now = world.store_time()
        waits = any(
            content.state is JobState.PENDING
            and content.run_at <= now
            and checker.rows[job_id].spec.queue == "capped"
            for job_id, content in checker.before.items()
        )
        cap = checker.in_effect("capped", "running")
        busy: Counter[str | None] = Counter(
            checker.rows[job_id].worker for each in checker.running.values() for job_id in each
        )
        idle = [name for name, slots in self._slots.items() if busy[name] < slots]
        if not (waits and idle and cap is not None and len(checker.running["capped"]) < cap):
            self._unused = world.loop.now
        elif world.loop.now - self._unused > UNUSED:
            what = f"{len(checker.running['capped'])} of {cap} run, {idle} are idle"
            world.fail(Violation("freed permits are used", what))


def phases() -> list[str]:
    """All the phases in which a worker can be killed."""
    calls = (f"{phase} {call}" for phase in ("before", "after") for call in CALLS)
    return ["between calls", *calls]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m proof.simulation.limits")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--histories", type=int, default=30)
    options = parser.parse_args()
    sums: Counter[str] = Counter()
    kills: Counter[str] = Counter()
    for seed in range(options.first, options.first + options.histories):
        history = simulate_limits(seed)
        if history.invariant is not None:
            print(msgspec.json.encode(history).decode(), flush=True)
            return 1
        kills.update(history.kills)
        for name in ("operations", "starts", "refused", "freezes"):
            sums[name] += getattr(history, name)
    answer = {"histories": options.histories, **sums, "kills": dict(sorted(kills.items()))}
    print(msgspec.json.encode(answer).decode(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
