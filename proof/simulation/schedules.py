"""A day of schedules: workers are killed before, after and between their calls of the store, all of
them are away for hours, and the store's clock is set back and forward. At the end each tick of each
timetable has started one job, or was counted as skipped.

python -m proof.simulation.schedules --first 0 --days 4
"""

from __future__ import annotations

import argparse
import asyncio
import contextvars
import random
import sys
import time
from collections import Counter
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import msgspec

from headway.domain.job import JobRecord
from headway.domain.schedules.catch_up import CatchUp
from headway.domain.schedules.firing_policy import ON_TIME
from headway.domain.schedules.schedule import (
    KEPT_RUNS,
    ScheduleDefinition,
    ScheduleRecord,
    tick_id,
)
from headway.domain.schedules.timetable import Cron, Every, Timetable
from headway.jobs.schedule_definition import define_schedule
from headway.ports.statement import Operation
from headway.schedules.declaration import new_schedule
from headway.worker.settings import WorkerSettings
from headway.worker.worker import Worker
from proof.simulation import jobs
from proof.simulation.checker import Violation
from proof.simulation.loop import Deadlock, Livelock, SimulatedProcess, VirtualLoop
from proof.simulation.run import clear_away, on_virtual_time
from proof.simulation.scenario import Scenario
from proof.simulation.store import SimulatedNotifier, SimulatedStore
from proof.simulation.world import HeartbeatTask, SimulatedClock, World

T = TypeVar("T")

WORKERS = 4
CALLS = ("is_declared", "declare", "fire", "save_worker")
"""The scheduler's calls of the store, and the one that tells it of the next tick."""
PHASES = ("before", "after")
SETTLE = 900.0
"""Virtual seconds without faults, at the end."""


def _definition(timetable: Timetable, number: int = 1, **options: Any) -> ScheduleDefinition:
    return define_schedule("schedule", timetable, jobs.plain.request(number), options)


EVERY_TICK: dict[str, Any] = {"overlap": "allow", "catch_up": CatchUp.all(days=2, at_most=10_000)}
PUT: dict[str, ScheduleDefinition] = {
    "minutes": _definition(Every(minutes=1), **EVERY_TICK),
    "cron": _definition(Cron("*/5 * * * *", tz="Europe/Berlin"), **EVERY_TICK),
    "jitter": _definition(Every(minutes=10), jitter=120.0, **EVERY_TICK),
    "latest": _definition(Every(minutes=2), overlap="allow", catch_up=CatchUp.latest(minutes=3)),
    "none": _definition(Every(minutes=3), overlap="allow", catch_up=CatchUp.none()),
    "skip": _definition(Every(minutes=1), overlap="skip"),
    "queue_one": _definition(Every(minutes=1), overlap="queue_one"),
    "cancel": _definition(Every(minutes=1), overlap="cancel"),
}
OLD = {"declared": _definition(Every(minutes=4), 1, **EVERY_TICK)}
NEW = {"declared": _definition(Every(minutes=4), 2, **EVERY_TICK)}
COMPLETE = ("minutes", "cron", "jitter", "declared")
"""Schedules of which no tick may be skipped."""


class Day(msgspec.Struct):
    seed: int
    hours: float = 24.0
    operations: int = 0
    kills: dict[str, int] = {}
    """By call and phase."""
    ticks: int = 0
    fired: int = 0
    skipped: int = 0
    seconds: float = 0.0
    invariant: str | None = None
    detail: str = ""


def simulate_day(seed: int, hours: float = 24.0) -> Day:
    """The same seed goes the same way every time. Every second day the clock jumps."""
    began = time.perf_counter()
    random.seed(seed)
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    rates = random.choice(((0.0, 0.0, 0.0), (0.002, 0.02, 0.02)))
    slow, failing, unknown = rates
    scenario = Scenario(
        seed=seed,
        workers=WORKERS,
        lease=45.0,
        horizon=hours * 3600,
        slow=slow,
        failing=failing,
        unknown=unknown,
        lost_notifications=random.choice((0.0, 0.2, 1.0)),
        features=("failures",),
    )
    world = World(scenario, loop)
    day = Day(seed, hours)
    with on_virtual_time(world):
        try:
            loop.run_until_complete(_Run(world, day).go())
        except Deadlock:
            world.fail(Violation("everything ends", "nothing is scheduled any more"))
        except Livelock:
            world.fail(Violation("everything ends", "something is scheduled again and again"))
        clear_away(loop)
    if world.violation is not None:
        day.invariant, day.detail = world.violation.invariant, str(world.violation)
    day.operations = world.operations
    day.seconds = time.perf_counter() - began
    return day


class _MortalStore(SimulatedStore):
    """The store of a worker that may die before or after a call of the scheduler."""

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
    def __init__(self, world: World, day: Day) -> None:
        self._world = world
        self._day = day
        self._names = 0
        self._workers: dict[int, SimulatedProcess] = {}
        self._kills: Counter[str] = Counter()
        self._first: dict[str, datetime] = {}
        self._away = False
        """All workers are down."""

    async def go(self) -> None:
        world, day = self._world, self._day
        for name, definition in (PUT | OLD).items():
            declaration = definition.fingerprint if name in OLD else None
            self._put(new_schedule(name, definition, world.store_time(), declaration=declaration))
        paused = new_schedule("paused", PUT["minutes"], world.store_time(), declaration=None)
        self._put(msgspec.structs.replace(paused, paused_at=world.store_time()))
        self._put(new_schedule("theirs", PUT["minutes"], world.store_time(), declaration="ff"))
        for place in range(WORKERS):
            self._start(place)
        horizon = day.hours * 3600
        for _ in range(round(day.hours * 4)):  # around the calls
            self._later(random.uniform(0, horizon), self._kill_any)
        self._later(random.uniform(0.2, 0.4) * horizon, self._leave, horizon * 0.06)
        if self._jumps:
            self._later(horizon * 0.45, world.jump, -3600.0)
            self._later(horizon * 0.7, world.jump, 2 * 3600.0)
        await self._until(horizon)
        world.healed = True
        self._away = False
        for place, process in list(self._workers.items()):
            if process.dead:
                self._start(place)
        await self._until(horizon + SETTLE)
        day.kills = dict(sorted(self._kills.items()))
        if world.violation is None:
            try:
                self._check()
            except Violation as violation:
                world.fail(violation)

    @property
    def _jumps(self) -> bool:
        return self._day.seed % 2 == 1

    async def _until(self, moment: float) -> None:
        world = self._world
        while world.violation is None and world.loop.now < moment:
            await asyncio.wait({world.over}, timeout=moment - world.loop.now)

    def _later(self, seconds: float, call: Any, *args: Any) -> None:
        # In no process, so that it happens whoever dies.
        self._world.loop.call_later(seconds, call, *args, context=contextvars.Context())

    def _put(self, record: ScheduleRecord) -> None:
        self._first[record.name] = record.next_at
        self._world.memory.run_sync(self._world.memory.put_schedules, [record])

    # Workers, and their deaths.

    def kills(self, call: str, phase: str) -> bool:
        """Whether a worker dies here: seldom in its frequent calls."""
        if self._world.healed or call not in CALLS:
            return False
        chance = 0.0015 if call == "save_worker" else 0.05
        if random.random() >= chance:
            return False
        self._kills[f"{phase} {call}"] += 1
        return True

    def kill(self, process: SimulatedProcess) -> None:
        self._world.kill(process)
        for place, known in self._workers.items():
            if known is process:
                self._later(random.choice((0.1, 5.0, 60.0)), self._start, place)

    def _kill_any(self) -> None:
        process = self._workers[random.randrange(WORKERS)]
        if not process.dead:
            self._kills["between calls"] += 1
            self.kill(process)

    def _leave(self, seconds: float) -> None:
        self._away = True
        for process in self._workers.values():
            self._world.kill(process)
        self._later(seconds, self._come_back)

    def _come_back(self) -> None:
        self._away = False
        for place in range(WORKERS):
            self._start(place)

    def _start(self, place: int) -> None:
        known = self._workers.get(place)
        if self._away or (known is not None and not known.dead):
            return
        self._names += 1
        world = self._world
        process = SimulatedProcess(f"process-{self._names}")
        process.world = world  # type: ignore[attr-defined]
        self._workers[place] = process
        # A deploy that takes hours: the new code runs beside the old.
        late = world.loop.now > self._day.hours * 1800 * (1 + place / WORKERS)
        worker = Worker(
            _MortalStore(world, process, self),  # type: ignore[arg-type]
            jobs.registry.handlers(),
            WorkerSettings(
                concurrency=50,
                lease_for=world.scenario.lease,
                poll_every=30.0,
                reap_every=20.0,
                maintain_every=3600.0,
                worker_id=process.name,
            ),
            notifier=SimulatedNotifier(world, process),
            clock=SimulatedClock(world.loop),
            heartbeat_runner=HeartbeatTask,
            schedules=NEW if late else OLD,
        )
        process.spawn(worker.run())

    # The books.

    def _check(self) -> None:
        memory = self._world.memory
        found: dict[str, list[JobRecord]] = {}
        for job in memory.run_sync(memory.get, list(memory._rows)):
            if job is not None and job.schedule is not None:
                found.setdefault(job.schedule, []).append(job)
        records = {record.name: record for record in memory.run_sync(memory.list_schedules)}
        for name in ("paused", "theirs"):
            _expect(name not in found, "only schedules that may fire", name)
            _expect(
                records[name].next_at == self._first[name], "only schedules that may fire", name
            )
        stored = records["declared"].definition
        _expect(stored == NEW["declared"], "a deploy is not undone", f"{stored}")
        for name in (*PUT, *OLD):
            self._check_schedule(records[name], found.get(name, []))

    def _check_schedule(self, record: ScheduleRecord, started: list[JobRecord]) -> None:
        name, timetable, waiting = record.name, record.timetable, record.waiting_tick
        upcoming = record.next_at if waiting is None else timetable.next_after(waiting)
        first = self._first[name]
        ticks = list(timetable.ticks(first - ON_TIME / 1e7, upcoming - ON_TIME / 1e7))
        self._day.ticks += len(ticks)
        self._day.fired += record.fired
        self._day.skipped += record.skipped
        by_tick = Counter(job.scheduled_for for job in started)
        wrong = by_tick.keys() - set(ticks)
        _expect(not wrong, "jobs of ticks only", f"{name}: {sorted(map(str, wrong))[:3]}")
        twice = [tick for tick, count in by_tick.items() if count > 1]
        _expect(not twice, "one job per tick", f"{name}: {twice[:3]}")
        for job in started:
            self._check_job(record, job)
        counted = record.fired + record.skipped + (waiting is not None)
        said = f"{name}: {record.fired} fired, {record.skipped} skipped, {len(ticks)} ticks"
        _expect(record.fired == len(started), "jobs are counted", f"{said}, {len(started)} jobs")
        _expect(counted == len(ticks), "every tick is fired or skipped", said)
        if name in COMPLETE:
            _expect(record.skipped == 0, "every tick is fired", said)
        _expect(record.fired > 0, "schedules are fired", said)
        late = self._world.store_time() - timedelta(seconds=60)
        _expect(upcoming > late, "schedules are kept up with", f"{said}, next is {upcoming}")
        self._check_runs(record, {job.id for job in started})
        if record.definition.overlap in ("skip", "queue_one") and not self._jumps:
            _check_overlap(name, started)

    def _check_job(self, record: ScheduleRecord, job: JobRecord) -> None:
        tick, definition = job.scheduled_for, record.definition
        assert tick is not None
        what = f"{record.name}: tick {tick}, created {job.created_at}, due {job.run_at}"
        _expect(job.id == tick_id(record.name, tick), "ids are made of ticks", what)
        if self._jumps and definition.overlap == "queue_one":
            return  # it waited while the clock was set back
        _expect(job.created_at >= tick, "none is early", what)
        if definition.overlap != "queue_one":
            within = max(definition.catch_up.within, ON_TIME)
            _expect(job.created_at - tick <= within, "none is caught up too late", what)

    def _check_runs(self, record: ScheduleRecord, ids: set[str]) -> None:
        memory = self._world.memory
        (runs,) = memory.run_sync(memory.schedule_runs, [record.name])
        _expect(len(runs) == min(record.runs, KEPT_RUNS), "runs are kept", f"{record}")
        for run in runs:
            started = tick_id(record.name, run.tick) in ids
            _expect(
                started == (run.skipped is None), "runs say what happened", f"{record.name}: {run}"
            )


def _check_overlap(name: str, started: list[JobRecord]) -> None:
    """A sequence is one job here."""
    in_order = sorted(started, key=lambda job: (job.created_at, job.scheduled_for or job.run_at))
    for before, after in pairwise(in_order):
        ended = before.finished_at
        overlaps = ended is None or ended > after.created_at
        _expect(not overlaps, "no overlap", f"{name}: {after.scheduled_for} beside {before}")


def _expect(holds: bool, invariant: str, detail: str) -> None:
    if not holds:
        raise Violation(invariant, detail)


def phases() -> list[str]:
    """All the phases in which a worker can be killed."""
    return ["between calls", *(f"{phase} {call}" for phase in PHASES for call in CALLS)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m proof.simulation.schedules")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--days", type=int, default=2)
    parser.add_argument("--hours", type=float, default=24.0)
    options = parser.parse_args()
    for seed in range(options.first, options.first + options.days):
        day = simulate_day(seed, options.hours)
        print(msgspec.json.encode(day).decode(), flush=True)
        if day.invariant is not None:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
