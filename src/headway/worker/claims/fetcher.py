"""Claims jobs, as many as this worker can soon start, when its schedule gives a reason to look."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from headway.after_commit.publisher import Publisher
from headway.domain.events import ClaimRefused, PermitsGranted
from headway.domain.job import ClaimedJob
from headway.domain.lifecycle import after_failure
from headway.domain.orders import ClaimOrder, QueueShare
from headway.domain.retry import Backoff
from headway.domain.settlement import Release
from headway.errors import Failure, InvalidPayload, StoreClosed
from headway.jobs.handler import Handler
from headway.jobs.ids import new_id, new_token
from headway.limits.claim import LimitedClaim, claim_limited
from headway.limits.key_claim import KeyTurns
from headway.ports.notifications import ANY_TYPE, JobsScheduled
from headway.runtime.store_errors import in_short, is_transient
from headway.worker.attempt import LEASE_EXPIRED, Attempt
from headway.worker.claims.claim_timing import SLOT_WITHIN, ClaimTiming
from headway.worker.claims.slots import SUSPECT, Slots
from headway.worker.committer import Committer
from headway.worker.dispatcher import Dispatcher
from headway.worker.environment import WorkerEnvironment
from headway.worker.failure_streak import sleep_unless
from headway.worker.leases.reaper import Reaper
from headway.worker.tracebacks import type_name

SHORTEST_WAIT = 0.001
"""Seconds until the next look at a queue whose rate allows a start at once."""
MOST_LATE = 0.02
"""Seconds that a look may come too late, so that one is enough."""
FULL_FOR = 0.05
"""Seconds that a queue without free permits is left alone, unless one is said to be free."""
CLOSED_FOR = 0.5
"""Seconds that a queue is left alone at most, while a rate or a hold keeps it waiting: limits may
have changed without a notification."""
LAST_LOOK = 2.0
"""Seconds that a stopping worker looks for the jobs of an unanswered claim."""
TRIES_TOGETHER = 3
"""Tries to read the outputs of all blockers of a claim at once, before they are read job by job."""
LONGEST_PAUSE = 0.25
"""Seconds between these tries."""


class Fetcher:
    """One claim is under way at a time, at the same time as the committer's commits."""

    def __init__(
        self,
        environment: WorkerEnvironment,
        schedule: ClaimTiming,
        slots: Slots,
        dispatcher: Dispatcher,
        committer: Committer,
        reaper: Reaper,
        publisher: Publisher,
        *,
        handlers: Mapping[str, Handler],
        spender: Callable[[str, int], None],
    ) -> None:
        self._schedule = schedule
        self._slots = slots
        self._dispatch = dispatcher.dispatch
        self._committer = committer
        self._reaper = reaper
        self._publisher = publisher
        self._spender = spender
        self._turns = KeyTurns()
        self._settings = environment.settings
        self._store = environment.store
        self._clock = environment.clock
        self._observers = environment.observers
        self._handlers = handlers
        self._held = environment.held
        self._types = tuple(sorted(handlers))
        self._plain_types = tuple(name for name in self._types if not handlers[name].atomic)
        """Those whose handlers begin without a transaction."""
        self._transactions = environment.store.transactions
        self._one_queue = len(slots.queues) == 1
        self._looked_everywhere = False
        """Since something was last claimed."""
        self.failures = environment.failures("fetcher")
        self._outputs = environment.failures("fetcher")
        """Of reading what blockers yielded."""
        self._asked: set[str] = set()
        """Queues with limits that the last claim asked."""
        self._unanswered: ClaimOrder | None = None
        """A claim that failed: the store may have granted it, and the answer was lost."""

    async def run(self) -> bool:
        """Returns when stopped; or, True, when told to drain and nothing is left to do. A claim
        that is under way is waited for."""
        schedule = self._schedule
        loop = asyncio.get_running_loop()
        while not schedule.stopped.is_set():
            self._give_back_waiting()
            self._slots.measure(self._clock.monotonic())
            shares, limit = self._shares(self._settings.batch_size)
            if schedule.left_out and self._most_atomic(1):
                schedule.left_out = False
                schedule.wanted = True
            if not (self._plain_types or self._most_atomic(1)):
                limit = 0
                schedule.left_out = True
            if schedule.more_left and any(self._slots[share.name].has_more for share in shares):
                schedule.wanted = True
            if schedule.drain and not self._held and not self._is_refused():
                schedule.wanted = True
            if limit and not shares and self._unanswered is None:  # none can be asked now
                schedule.wanted = False
            if not schedule.wanted or not limit or schedule.committer_behind:
                self._pass_on_permits()
                await schedule.rest()
                continue
            idle = not self._held
            schedule.wanted = schedule.left_out = False
            schedule.claiming = True
            try:
                count, full = await self._claim(shares, limit)
            except StoreClosed:
                raise
            except Exception as error:
                schedule.wanted = True
                await sleep_unless(schedule.stopped, self.failures.failed(error))
                continue
            finally:
                schedule.claiming = False
            self.failures.ended()
            schedule.more_left = any(queue.has_more for queue in self._slots.queues)
            self._pass_on_permits()
            schedule.empty_claims = 0 if count else schedule.empty_claims + 1
            self._looked_everywhere = self._looked_everywhere and not count
            if full and self._one_queue:
                # The next claim is on its way before these are run: the store works while we do.
                # Among several queues, what still waits would tell which of them to ask wrongly.
                schedule.wanted = True
                loop.call_soon(self._dispatch)
                continue
            self._dispatch()
            if full:
                schedule.wanted = True
                await asyncio.sleep(0)  # a store that never waits must not keep the loop
            elif (
                schedule.drain
                and idle
                and not (self._held or schedule.wanted or self._is_refused())
            ):
                if self._looked_everywhere:
                    return True
                await self._look_everywhere()
        self._asked.clear()
        self._pass_on_permits()
        if self._unanswered is not None:  # what it took is given back with all the rest
            self._unanswered = msgspec.structs.replace(self._unanswered, limit=0)
            with contextlib.suppress(Exception):
                async with asyncio.timeout(LAST_LOOK):
                    await self._claim((), 0)
        return False

    def _is_refused(self) -> bool:
        """Whether due jobs wait for a limit of their queue, and time will end that."""
        return self._clock.now() is None and any(
            queue.refused_at is not None for queue in self._slots.queues
        )

    def _shares(self, most: int) -> tuple[tuple[QueueShare, ...], int]:
        """How many jobs of which queues to claim, but for queues that would give none now."""
        slots, now = self._slots, self._clock.monotonic()
        shares, limit = slots.shares(most)
        open_ = [
            share
            for share in shares
            if slots[share.name].rests_until <= now
            and not (slots[share.name].needs_slot and not slots.can_start(share.name))
        ]
        return tuple(open_), limit

    def _pass_on_permits(self) -> None:
        """Wake other workers for permits that this one kept for itself and has not asked for: other
        queues came first and took its slots, or it stops."""
        now = self._clock.monotonic()
        for queue in self._slots.queues:
            if queue.freed:
                queue.freed = False
                if queue.name not in self._asked and queue.again_at <= now:
                    self._publisher.wake_others(JobsScheduled(queue.name, ANY_TYPE, 1))

    async def _look_everywhere(self) -> None:
        """Before a drain ends: give back the jobs of dead workers, and have the next claim look at
        every place of the queues."""
        self._schedule.wanted = True
        try:
            await self._reaper.reap_all()
        except StoreClosed:
            raise
        except Exception as error:
            await sleep_unless(self._schedule.stopped, self.failures.failed(error))
            return
        for queue in self._slots.queues:
            self._store.expect(queue.name, None)
        self._looked_everywhere = True

    async def _claim(self, shares: tuple[QueueShare, ...], limit: int) -> tuple[int, bool]:
        """Claim jobs and put them into their slots; how many there were, and whether there may be
        more."""
        self._asked.clear()
        atomic = self._most_atomic(limit)
        if atomic == limit:
            return await self._claim_types(self._types, shares, limit)
        # All of these could be atomic: no more are claimed than can have a transaction. For what
        # else there is room, others are claimed.
        count, full = 0, True
        if atomic:
            count, full = await self._claim_types(self._types, shares, atomic)
            self._dispatch()
        if not full:
            return count, False
        shares, room = self._shares(limit - count)
        full = False
        if room and shares and self._plain_types:
            others, full = await self._claim_types(self._plain_types, shares, room)
            count += others
        self._schedule.left_out = not self._most_atomic(1)
        return count, full or not self._schedule.left_out

    def _most_atomic(self, limit: int) -> int:
        """How many jobs with atomic handlers may be claimed, up to `limit`: each of them needs a
        transaction throughout. Transactions of other handlers end soon, and are waited for."""
        if self._transactions is None or len(self._plain_types) == len(self._types):
            return limit
        running = sum(
            each.settlement is None and each.handler is not None and each.handler.atomic
            for each in self._held
        )
        return max(min(self._transactions - running, limit), 0)

    async def _claim_types(
        self, types: tuple[str, ...], shares: tuple[QueueShare, ...], limit: int
    ) -> tuple[int, bool]:
        """Claim from the queues in their order: from those without limits in one statement."""
        if self._unanswered is not None:
            return await self._send(self._unanswered)
        only_healthy = self._slots.only_healthy
        count, full = 0, False
        left = shares
        while left and count < limit:
            is_limited = self._slots[left[0].name].limited
            if is_limited:
                at_once = self._slots.can_start(left[0].name)
                left = (msgspec.structs.replace(left[0], at_once=at_once), *left[1:])
            together = 1
            while not is_limited and together < len(left):
                if self._slots[left[together].name].limited:
                    break
                together += 1
            order = ClaimOrder(
                worker=self._settings.worker_id,
                token=new_token(),
                lease_for=self._settings.lease_for,
                queues=left[:together],
                types=types,
                limit=limit - count,
                most_losses=SUSPECT - 1 if only_healthy else None,
                limited=is_limited,
            )
            left = left[together:]
            claimed, more = await self._send(order)
            count += claimed
            full = full or more
        if only_healthy and not count and not self._is_refused():
            full = self._end_healthy_turn()
        return count, full

    def _end_healthy_turn(self) -> bool:
        """Nothing healthy waits; whether suspects may be claimed now. While a suspect runs, none of
        the others is wanted either."""
        slots = self._slots
        if slots.reserved or slots.suspected is not None:
            return False
        slots.end_turn()
        return True

    async def _send(self, order: ClaimOrder) -> tuple[int, bool]:
        """Send a claim; how many jobs it gave, and whether there may be more."""
        slots = self._slots
        sent = self._clock.monotonic()
        lease_for = self._settings.lease_for
        limited: LimitedClaim | None = None
        try:
            if order.limited:
                self._asked.add(order.queues[0].name)
                slots[order.queues[0].name].told = False
                if self._schedule.take_hint():
                    self._turns.hint()
                limited = await self._store.run(
                    claim_limited, self._store, order, self._turns, now=self._clock.now()
                )
                claimed = limited.jobs
            else:
                answer = await self._store.run(self._store.claim, order, now=self._clock.now())
                claimed = answer
                for name in answer.limited:  # it was given its limits since the last claim
                    slots[name].limited = True
                    self._schedule.wanted = True
        except Exception:
            self._unanswered = msgspec.structs.replace(order, again=True)
            raise
        self._unanswered = None
        if limited is not None:
            self._follow_limits(order.queues[0].name, limited)
        if order.most_losses is None:
            slots.probing = False
        full = self._note_more(order, claimed, limited)
        if claimed:
            await self._receive(claimed, sent + lease_for)
        return len(claimed), full

    def _note_more(
        self, order: ClaimOrder, claimed: Sequence[ClaimedJob], limited: LimitedClaim | None
    ) -> bool:
        """Note which queues of a claim may have more jobs; whether any has."""
        if limited is not None:
            self._slots[order.queues[0].name].more = limited.more
            return limited.more
        full = bool(claimed) and len(claimed) >= order.limit
        taken = dict.fromkeys((share.name for share in order.queues), 0)
        for job in claimed:
            taken[job.queue] += 1
        found = False
        for share in order.queues:
            more = full or taken[share.name] >= share.limit
            self._slots[share.name].more = more
            found = found or more
        return found

    def _follow_limits(self, queue: str, answer: LimitedClaim) -> None:
        """Note what a claim found out about the limits of its queue, and when to look again."""
        slots, worker = self._slots[queue], self._settings.worker_id
        now = self._clock.monotonic()
        slots.limited = answer.limited
        slots.permits = answer.permits
        slots.needs_slot = answer.due
        slots.rated = slots.rated or answer.rated
        if answer.jobs and slots.refused_at is not None and self._observers.active:
            refused_for = now - slots.refused_at
            present = self._clock.now() or datetime.now(UTC)
            waited = tuple(
                max(min((present - job.run_at).total_seconds(), refused_for), 0.0)
                for job in answer.jobs
            )
            self._observers.observe(PermitsGranted(worker, queue, waited))
        wait = answer.wait
        if wait is None or wait.again_in is None:
            slots.again_at = 0.0
        if wait is None:
            slots.refused_at = None
        else:
            if slots.refused_at is None:
                slots.refused_at = now
            if self._observers.active:
                self._observers.observe(ClaimRefused(worker, queue, wait.limit, wait.again_in))
            if wait.again_in is not None:
                again_in = max(wait.again_in, SHORTEST_WAIT)
                late = min(again_in / 10, MOST_LATE)
                if not now < slots.again_at <= now + again_in + late:  # it looks then already
                    slots.again_at = now + again_in
                    self._schedule.expect(again_in)
            if wait.key is None and not slots.told and self._clock.now() is None:
                full_until = now + FULL_FOR
                slots.rests_until = min(slots.again_at or full_until, now + CLOSED_FOR)
        if answer.others:
            self._publisher.wake_others(JobsScheduled(queue, ANY_TYPE, answer.others))

    async def _receive(self, claimed: Sequence[ClaimedJob], deadline: float) -> None:
        now = self._clock.monotonic()
        slots = self._slots
        find = self._handlers.get
        worker = self._settings.worker_id
        attempts = [
            Attempt(job, find(job.type), slots[job.queue], now, deadline, worker) for job in claimed
        ]
        for attempt in attempts:
            if attempt.queue_slots.rated:
                attempt.spender = self._spender
        if deadline <= now:  # this process was away for so long that the leases are gone
            for attempt in attempts:
                self._committer.lost(attempt, LEASE_EXPIRED)
            return
        self._held.update(attempts)
        blocked = [attempt for attempt in attempts if attempt.claimed.has_blockers]
        for attempt in attempts:
            if not attempt.claimed.has_blockers:
                slots.put(attempt)
        if blocked:
            self._dispatch()
            for attempt in await self._ask_for_outputs(blocked):
                slots.put(attempt)

    async def _ask_for_outputs(self, blocked: list[Attempt]) -> list[Attempt]:
        """Read the outputs of the blockers, for all jobs of a claim in one statement; the jobs that
        can be run then. An error delays further claims for a moment only."""
        for _ in range(TRIES_TOGETHER):
            error = await self._try_for_outputs(blocked)
            if error is None:
                self._outputs.ended()
                break
            pause = min(self._outputs.failed(error), LONGEST_PAUSE)
            if await sleep_unless(self._schedule.stopped, pause):
                return blocked  # to be given back with all the others
        else:
            blocked = await self._ask_one_by_one(blocked)
        if self._observers.tracer is not None:
            with contextlib.suppress(Exception):  # it is only asked for the sake of links
                await self._ask_for_traces(blocked)
        return blocked

    async def _ask_one_by_one(self, blocked: list[Attempt]) -> list[Attempt]:
        """A job whose blockers cannot be read must not keep the others waiting: it is dead-lettered
        if the store answers for others, and given back if it does not."""
        errors = {each: await self._try_for_outputs([each]) for each in blocked}
        for attempt, error in errors.items():
            if error is not None:  # it may have been in passing, and over by now
                errors[attempt] = await self._try_for_outputs([attempt])
        answered = [each for each, error in errors.items() if error is None]
        answers = bool(answered) or await self._try_for_outputs([]) is None
        for attempt, error in errors.items():
            if error is None:
                continue
            claimed = attempt.claimed
            if answers and not is_transient(error):
                reason = f"what its blockers yielded could not be read: {in_short(error)}"
                attempt.failure = Failure(type_name(InvalidPayload), reason)
                attempt.settlement = after_failure(
                    claimed, attempt.failure, Backoff(), recoverable=False
                )
            else:
                attempt.settlement = Release(claimed.id, claimed.lease.token)
            self._committer.put(attempt)
        return answered

    async def _try_for_outputs(self, blocked: list[Attempt]) -> Exception | None:
        """The error, or None."""
        ids = [attempt.claimed.id for attempt in blocked]
        try:
            outputs = await self._store.run(self._store.blocker_outputs, ids or [new_id()])
        except Exception as error:
            return error
        for attempt in blocked:
            attempt.blockers = outputs.get(attempt.claimed.id, [])
        return None

    async def _ask_for_traces(self, blocked: list[Attempt]) -> None:
        """Read the traces of the last jobs of the blockers."""
        store = self._store
        ids = [attempt.claimed.id for attempt in blocked]
        waiting = [job for job in await store.run(store.get, ids) if job is not None]
        sequences = list({id: None for job in waiting for id in job.blockers})
        last = dict(zip(sequences, await store.run(store.current, sequences), strict=True))
        traces = {
            job.id: [
                ended.trace
                for ended in map(last.get, job.blockers)
                if ended is not None and ended.trace is not None
            ]
            for job in waiting
        }
        for attempt in blocked:
            attempt.blocker_traces = traces.get(attempt.claimed.id, ())

    def _give_back_waiting(self) -> None:
        """Give back jobs that were claimed ahead and found no slot, because the running ones are
        long."""
        before = self._clock.monotonic() - SLOT_WITHIN
        oldest = self._slots.oldest()
        if oldest is None or oldest >= before:
            return
        for attempt in self._slots.remove(lambda each: each.claimed_at < before):
            attempt.settlement = Release(attempt.claimed.id, attempt.claimed.lease.token)
            self._committer.put(attempt)
