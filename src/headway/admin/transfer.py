"""Moves jobs from one store to another while producers and workers of both go on, or copies those
that can never run again.

How a batch travels, and why nothing is lost or run twice, is told in `headway.ports.transfer`. Jobs
that belong together travel together: a tree of sequences, and whatever waits for one of its
sequences or is waited for by one of its jobs. A group in which a job is running stays where it is
until that job has ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from headway.after_commit.effects import Effects
from headway.after_commit.observer_group import Observers
from headway.after_commit.publisher import Publisher
from headway.domain.job import JobRecord, JobState
from headway.domain.queries import MAX_PAGE, JobFilter
from headway.errors import ConfigurationError, DuplicateJob, InvalidOption
from headway.jobs.ids import new_id
from headway.ports.notifier import Notifier
from headway.ports.statement import Operation
from headway.ports.store import Store
from headway.ports.transfer import BatchOutcome, MovedJob, Transfer

_RUNNING = frozenset({JobState.RUNNING})
_CAN_RUN = frozenset(JobState) - {JobState.COMPLETED}
"""A job in one of these states runs, or may run again."""
LIVE = (JobState.PENDING, JobState.BLOCKED, JobState.FAILED)
"""What is moved; running jobs are awaited."""
HISTORY = (JobState.COMPLETED, JobState.CANCELLED)
BATCH = 250
"""Jobs that are looked at in one go; with what belongs to them more may travel in a batch."""
MAX_GROUP = 20_000
"""Jobs that can travel together."""


@dataclass(frozen=True, slots=True)
class TransferStep:
    """What one step did."""

    arrived: int
    """Jobs that the target has now."""
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
        source: Transfer,
        target: Transfer,
        *,
        notifier: Notifier,
        history: bool = False,
    ) -> None:
        """`notifier` is the target's. With `history` jobs that have ended move too."""
        self._source = source
        self._target = target
        self._publisher = Publisher(target.store, notifier, Observers())
        self._states = LIVE + HISTORY if history else LIVE

    async def check(self) -> None:
        """Raises InvalidOption if both stores are the same one: moving would never end."""
        await _check_different(self._source, self._target)

    async def resume(self) -> int:
        """Finish or undo the work of an interrupted mover; the number of jobs that arrived."""
        arrived = 0
        while batches := await self._target.store.run(self._target.staged_batches, 100):
            for batch in batches:
                arrived += await self._settle(batch)
        return arrived

    async def pause_queues(self) -> list[str]:
        """Pause the source's paused queues at the target, if unknown there; their names. Limits
        that the target's workers have declared do not make a queue known."""
        source, target = self._source.store, self._target.store
        known = {queue.name for queue in await target.run(target.queues)}
        for state in await target.run(target.queue_states):
            if state.limits is not None and state.paused_at is None:
                # Workers declared its limits: only its jobs tell whether the queue is in use.
                used = await target.run(target.count, JobFilter(queues=(state.name,)), 1)
                known -= {state.name} if not used.value and used.exact else set()
        paused = [
            queue.name
            for queue in await source.run(source.queues)
            if queue.paused_at is not None and queue.name not in known
        ]
        for name in paused:
            await target.run(target.pause, name, True)
        return paused

    async def schedules_left(self) -> int:
        """How many schedules of the source were put at run time. They stay: in two stores at once
        they would be fired twice. Declared schedules are stored by the workers of each store."""
        store = self._source.store
        count, after = 0, None
        while page := await store.run(store.list_schedules, after=after, limit=MAX_PAGE):
            count += sum(not each.declared for each in page)
            after = page[-1].name
        return count

    async def left(self, at_most: int = 1_000_000) -> int:
        """How many jobs are still to be moved, running ones included."""
        states = (*self._states, JobState.RUNNING)
        store = self._source.store
        found = await store.run(store.count, JobFilter(states=states), at_most)
        return found.value

    async def running(self) -> bool:
        """Whether jobs run that will be left when they have ended, or what they start."""
        store = self._source.store
        found = await store.run(store.count, JobFilter(states=(JobState.RUNNING,)), 1)
        return found.value > 0

    async def step(self, cursor: str | None = None) -> TransferStep:
        """Move the next jobs, oldest first, with all that belongs to them."""
        return await _step(self._source, self._states, cursor, self._send)

    async def _send(self, root_ids: Sequence[str]) -> int:
        source, target, batch = self._source, self._target, new_id()
        jobs = await source.store.run(_gather, source, root_ids, _RUNNING)
        if not jobs:
            return 0
        try:
            await target.store.run(target.stage, batch, jobs)
            await source.store.run(_move_out, source, batch, jobs)
        except BaseException:
            # It may have departed all the same, if only the answer was lost.
            if arrived := await self._settle(batch):
                return arrived
            raise
        return await self._arrive(batch)

    async def _settle(self, batch: str) -> int:
        """Finish a batch that departed, undo one that did not."""
        source, target = self._source, self._target
        outcome = await source.store.run(source.set_outcome, batch, BatchOutcome.CANCELLED)
        if outcome is BatchOutcome.MOVED:
            return await self._arrive(batch)
        await target.store.run(target.take_staged, batch)
        return 0

    async def _arrive(self, batch: str) -> int:
        jobs = await self._target.store.run(_move_in, self._target, batch)
        await self._source.store.run(self._source.delete_outcome, batch)
        effects = Effects()
        for moved in jobs:
            if moved.job.state is JobState.PENDING:
                effects.schedule(moved.job.queue, moved.job.type, moved.job.run_at)
        await self._publisher.publish(effects)
        return len(jobs)


class Copier:
    """Copies groups of jobs that have all completed, and leaves the source as it is. Other jobs can
    still run, or be retried: in two stores they would run twice. Any number of copiers may work
    between the same stores, and jobs that the target has already stay as they are."""

    def __init__(self, source: Transfer, target: Transfer) -> None:
        self._source = source
        self._target = target

    async def check(self) -> None:
        """Raises InvalidOption if both stores are the same one."""
        await _check_different(self._source, self._target)

    async def step(self, cursor: str | None = None) -> TransferStep:
        """Copy the next jobs, oldest first, with all that belongs to them."""
        return await _step(self._source, (JobState.COMPLETED,), cursor, self._send)

    async def _send(self, root_ids: Sequence[str]) -> int:
        source, target = self._source, self._target
        jobs = await source.store.run(_gather, source, root_ids, _CAN_RUN)
        try:
            return await target.store.run(_insert_missing, target, jobs)
        except DuplicateJob:  # another copier was faster
            return await target.store.run(_insert_missing, target, jobs)


async def _check_different(source: Transfer, target: Transfer) -> None:
    if await source.identity() == await target.identity():
        raise InvalidOption(
            f"{source.store.name} and {target.store.name} are the same store; name another one as "
            "the target"
        )


async def _step(
    source: Transfer,
    states: Sequence[JobState],
    cursor: str | None,
    send: Callable[[Sequence[str]], Awaitable[int]],
) -> TransferStep:
    """Send the next jobs in these states with all that belongs to them, in groups as they are."""
    found = await source.store.run(source.movable, states, cursor, BATCH)
    end = found[-1][0] if len(found) == BATCH else None
    wanted = {root_id for _, root_id in found}
    left_out: set[str] = set()
    while wanted:
        try:
            arrived = await send(sorted(wanted))
        except _Unsettled as unsettled:
            # A new job may tie others to one that was left out: they are looked at together again.
            left_out = (left_out | unsettled.without) - unsettled.also
            wanted = (wanted | unsettled.also) - left_out
        else:
            return TransferStep(arrived, _among(found, left_out), end)
    return TransferStep(0, _among(found, left_out), end)


def _among(found: Iterable[tuple[str, str]], root_ids: set[str]) -> int:
    return sum(root_id in root_ids for _, root_id in found)


def _gather(
    transfer: Transfer, root_ids: Sequence[str], excluded: frozenset[JobState]
) -> Operation[list[MovedJob]]:
    """The jobs of these trees. Raises _Unsettled if others are tied to them, or if one is in an
    excluded state."""
    jobs = yield from transfer.trees(root_ids)
    if len(jobs) > MAX_GROUP:
        raise ConfigurationError(
            f"{len(jobs)} jobs wait for one another or were started by one another; at most "
            f"{MAX_GROUP} can move together, so let workers finish some of them first"
        )
    blockers = {blocker for moved in jobs for blocker in moved.job.blockers}
    outside = sorted(blockers - {moved.job.id for moved in jobs})
    others = [job for job in (yield from transfer.store.get(outside)) if job is not None]
    others += yield from _waiting_outside(transfer.store, jobs)
    if others:
        raise _Unsettled(also={job.root_id for job in others})
    stay = [moved.job.root_id for moved in jobs if moved.job.state in excluded]
    if stay:
        raise _Unsettled(without=_tied_to(stay, jobs))
    return jobs


def _move_out(transfer: Transfer, batch: str, jobs: Sequence[MovedJob]) -> Operation[None]:
    """Delete jobs that are still as they were staged; raises _Unsettled if they are not."""
    root_ids = sorted({moved.job.root_id for moved in jobs})
    present = yield from transfer.trees(root_ids, lock=True)
    expected = {moved.job.id: moved for moved in jobs}
    found = {moved.job.id: moved for moved in present}
    if found != expected:
        differ = [
            (expected.get(id) or found[id]).job.root_id
            for id in expected.keys() | found.keys()
            if expected.get(id) != found.get(id)
        ]
        raise _Unsettled(without=_tied_to(differ, jobs))
    if others := (yield from _waiting_outside(transfer.store, jobs)):
        raise _Unsettled(also={job.root_id for job in others})
    yield from transfer.store.delete_jobs(list(found))
    outcome = yield from transfer.set_outcome(batch, BatchOutcome.MOVED)
    if outcome is not BatchOutcome.MOVED:
        raise _Unsettled  # another mover took this one for dead


def _waiting_outside(store: Store, jobs: Sequence[MovedJob]) -> Operation[list[JobRecord]]:
    """Jobs that wait, or waited, for these and are none of them."""
    inside = {moved.job.id for moved in jobs}
    sequences = sorted({moved.job.sequence_id for moved in jobs})
    return [job for job in (yield from store.dependents(sequences)) if job.id not in inside]


def _tied_to(root_ids: Iterable[str], jobs: Sequence[MovedJob]) -> set[str]:
    """The roots of all trees that are tied to these, directly or not, by blockers."""
    roots = {moved.job.id: moved.job.root_id for moved in jobs}
    ties: defaultdict[str, set[str]] = defaultdict(set)
    for moved in jobs:
        for blocker in moved.job.blockers:
            if (root := roots.get(blocker)) is not None:
                ties[moved.job.root_id].add(root)
                ties[root].add(moved.job.root_id)
    found: set[str] = set()
    ahead = list(root_ids)
    while ahead:
        root = ahead.pop()
        if root not in found:
            found.add(root)
            ahead += ties[root]
    return found


def _move_in(transfer: Transfer, batch: str) -> Operation[list[MovedJob]]:
    jobs = yield from transfer.take_staged(batch)
    yield from _insert_missing(transfer, jobs)
    return jobs


def _insert_missing(transfer: Transfer, jobs: Sequence[MovedJob]) -> Operation[int]:
    """Insert the jobs that were not copied before: those have completed, and cannot have changed
    since; and not those of ticks that were fired at the target as well. Raises DuplicateJob for any
    other id that is taken."""
    there = yield from transfer.store.get([moved.job.id for moved in jobs])
    pairs = list(zip(jobs, there, strict=True))
    fired = _fired_twice(pairs)
    missing = [
        moved
        for moved, job in pairs
        if (job is None or job.state is not JobState.COMPLETED) and moved.job.root_id not in fired
    ]
    if missing:
        yield from transfer.insert_moved(missing)
    return len(missing)


def _fired_twice(pairs: Sequence[tuple[MovedJob, JobRecord | None]]) -> set[str]:
    """Roots of the trees that begin with a tick that both stores have fired: its job has the same
    id in each, and one of the two is enough. Not trees that other jobs wait for: the job at the
    target does not know of these."""
    fired = {
        job.id
        for moved, there in pairs
        if (job := moved.job).schedule is not None and there is not None and job.id == job.root_id
        if not job.state is there.state is JobState.COMPLETED  # else it was copied before
    }
    roots = {moved.job.id: moved.job.root_id for moved, _ in pairs}
    awaited = {
        roots.get(blocker)
        for moved, _ in pairs
        if moved.job.root_id not in fired
        for blocker in moved.job.blockers
    }
    return {id for id in fired if id not in awaited}
