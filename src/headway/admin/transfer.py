"""Moves jobs from one store to another while producers and workers of both go on.

How a batch travels, and why nothing is lost or run twice, is told in `headway.ports.transfer`. Jobs
that belong together travel together: a tree of sequences, and whatever waits for one of its
sequences or is waited for by one of its jobs. A group in which a job is running stays where it is
until that job has ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headway.after_commit.effects import Effects, Publisher
from headway.after_commit.observers import Observers
from headway.domain.job import JobRecord, JobState
from headway.domain.queries import JobFilter
from headway.domain.transfer import Departure, PackedJob
from headway.errors import ConfigurationError, InvalidOption
from headway.jobs.ids import new_id
from headway.ports.notifier import Notifier
from headway.ports.statement import Operation
from headway.ports.transfer import MovingStore

LIVE = (JobState.PENDING, JobState.BLOCKED, JobState.FAILED)
"""What is moved; running jobs are awaited."""
HISTORY = (JobState.COMPLETED, JobState.CANCELLED)
BATCH = 250
"""Jobs that are looked at in one go; with what belongs to them more may travel in a batch."""
MAX_GROUP = 20_000
"""Jobs that can travel together."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What one step did."""

    moved: int
    """Jobs that have arrived."""
    waiting: int
    """Jobs that were passed over because they, or what belongs to them, are running."""
    cursor: str | None
    """Where to go on; None at the end of a pass."""


class _Unsettled(Exception):
    """The batch cannot leave as it is; `without` are roots to leave out, `also` those to add."""

    def __init__(self, *, without: Iterable[str] = (), also: Iterable[str] = ()) -> None:
        self.without = frozenset(without)
        self.also = frozenset(also)


class Mover:
    """Any number of movers may work between the same stores; one that died is cleaned up after by
    the next one's `resume`."""

    def __init__(
        self,
        source: MovingStore,
        target: MovingStore,
        *,
        notifier: Notifier,
        history: bool = False,
    ) -> None:
        """`notifier` is the target's. With `history` jobs that have ended move too."""
        self._source = source
        self._target = target
        self._publisher = Publisher(target, notifier, Observers())
        self._states = LIVE + HISTORY if history else LIVE

    async def check(self) -> None:
        """Raises InvalidOption if both stores are the same one: moving would never end."""
        source, target = self._source, self._target
        if await source.identity() == await target.identity():
            raise InvalidOption(
                f"{source.name} and {target.name} are the same store; name another one to move "
                "the jobs to"
            )

    async def resume(self) -> int:
        """Finish or undo what a mover left behind; the number of jobs that arrived by it."""
        arrived = 0
        while batches := await self._target.run(self._target.luggage, 100):
            for batch in batches:
                arrived += await self._settle(batch)
        return arrived

    async def pause_queues(self) -> list[str]:
        """Pause at the target what is paused at the source and unknown there; their names."""
        known = {queue.name for queue in await self._target.run(self._target.queues)}
        paused = [
            queue.name
            for queue in await self._source.run(self._source.queues)
            if queue.paused_at is not None and queue.name not in known
        ]
        for name in paused:
            await self._target.run(self._target.pause, name, True)
        return paused

    async def left(self, at_most: int = 1_000_000) -> int:
        """How many jobs are still to be moved, running ones included."""
        states = (*self._states, JobState.RUNNING)
        found = await self._source.run(self._source.count, JobFilter(states=states), at_most)
        return found.value

    async def running(self) -> bool:
        """Whether jobs run that will be left when they have ended, or what they start."""
        found = await self._source.run(self._source.count, JobFilter(states=(JobState.RUNNING,)), 1)
        return found.value > 0

    async def step(self, cursor: str | None = None) -> Moved:
        """Move the next jobs, oldest first, with all that belongs to them."""
        found = await self._source.run(self._source.movable, self._states, cursor, BATCH)
        end = found[-1][0] if len(found) == BATCH else None
        wanted = {root_id for _, root_id in found}
        left_out: set[str] = set()
        while wanted:
            try:
                moved = await self._send(sorted(wanted))
            except _Unsettled as unsettled:
                left_out |= unsettled.without
                wanted |= unsettled.also
                wanted -= left_out
            else:
                return Moved(moved, _among(found, left_out), end)
        return Moved(0, _among(found, left_out), end)

    async def _send(self, root_ids: Sequence[str]) -> int:
        source, target, batch = self._source, self._target, new_id()
        jobs = await source.run(_gather, source, root_ids)
        if not jobs:
            return 0
        try:
            await target.run(target.pack, batch, jobs)
            await source.run(_depart, source, batch, jobs)
        except BaseException:
            # It may have departed all the same, if only the answer was lost.
            if arrived := await self._settle(batch):
                return arrived
            raise
        return await self._arrive(batch)

    async def _settle(self, batch: str) -> int:
        """Finish a batch that departed, undo one that did not."""
        departure = await self._source.run(self._source.depart, batch, Departure.CALLED_OFF)
        if departure is Departure.LEFT:
            return await self._arrive(batch)
        await self._target.run(self._target.unpack, batch)
        return 0

    async def _arrive(self, batch: str) -> int:
        jobs = await self._target.run(_unpack_and_put, self._target, batch)
        await self._source.run(self._source.forget_departure, batch)
        effects = Effects()
        for packed in jobs:
            if packed.job.state is JobState.PENDING:
                effects.schedule(packed.job.queue, packed.job.type, packed.job.run_at)
        await self._publisher.publish(effects)
        return len(jobs)


def _among(found: Iterable[tuple[str, str]], root_ids: set[str]) -> int:
    return sum(root_id in root_ids for _, root_id in found)


def _gather(store: MovingStore, root_ids: Sequence[str]) -> Operation[list[PackedJob]]:
    """The jobs of these trees. Raises _Unsettled if others are tied to them, or if one runs."""
    jobs = yield from store.trees(root_ids)
    if len(jobs) > MAX_GROUP:
        raise ConfigurationError(
            f"{len(jobs)} jobs wait for one another or were started by one another; at most "
            f"{MAX_GROUP} can move together, so let workers finish some of them first"
        )
    blockers = {blocker for packed in jobs for blocker in packed.job.blockers}
    outside = sorted(blockers - {packed.job.id for packed in jobs})
    others = [job for job in (yield from store.get(outside)) if job is not None]
    others += yield from _waiting_outside(store, jobs)
    if others:
        raise _Unsettled(also={job.root_id for job in others})
    running = [packed.job.root_id for packed in jobs if packed.job.state is JobState.RUNNING]
    if running:
        raise _Unsettled(without=_tied_to(running, jobs))
    return jobs


def _depart(store: MovingStore, batch: str, jobs: Sequence[PackedJob]) -> Operation[None]:
    """Let go of jobs that are still as they were packed; raises _Unsettled if they are not."""
    root_ids = sorted({packed.job.root_id for packed in jobs})
    present = yield from store.trees(root_ids, lock=True)
    packed_as = {packed.job.id: packed for packed in jobs}
    found = {packed.job.id: packed for packed in present}
    if found != packed_as:
        differ = [
            (packed_as.get(id) or found[id]).job.root_id
            for id in packed_as.keys() | found.keys()
            if packed_as.get(id) != found.get(id)
        ]
        raise _Unsettled(without=_tied_to(differ, jobs))
    if others := (yield from _waiting_outside(store, jobs)):
        raise _Unsettled(also={job.root_id for job in others})
    yield from store.delete(list(found))
    departure = yield from store.depart(batch, Departure.LEFT)
    if departure is not Departure.LEFT:
        raise _Unsettled  # another mover took this one for dead


def _waiting_outside(store: MovingStore, jobs: Sequence[PackedJob]) -> Operation[list[JobRecord]]:
    """Jobs that wait, or waited, for these and are none of them."""
    inside = {packed.job.id for packed in jobs}
    sequences = sorted({packed.job.sequence_id for packed in jobs})
    return [job for job in (yield from store.dependents(sequences)) if job.id not in inside]


def _tied_to(root_ids: Iterable[str], jobs: Sequence[PackedJob]) -> set[str]:
    """The roots of all trees that are tied to these, directly or not, by blockers."""
    roots = {packed.job.id: packed.job.root_id for packed in jobs}
    ties: defaultdict[str, set[str]] = defaultdict(set)
    for packed in jobs:
        for blocker in packed.job.blockers:
            if (root := roots.get(blocker)) is not None:
                ties[packed.job.root_id].add(root)
                ties[root].add(packed.job.root_id)
    found: set[str] = set()
    ahead = list(root_ids)
    while ahead:
        root = ahead.pop()
        if root not in found:
            found.add(root)
            ahead += ties[root]
    return found


def _unpack_and_put(store: MovingStore, batch: str) -> Operation[list[PackedJob]]:
    jobs = yield from store.unpack(batch)
    if jobs:
        yield from store.put(jobs)
    return jobs
