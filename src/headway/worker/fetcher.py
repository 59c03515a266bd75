"""Claims jobs, as many as this worker can soon start, when there is reason to look for them.

Reasons to look: the last claim was full, a notification came, a retry falls due, or it has been a
while. A worker without room waits for a handler to end.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from random import random

import msgspec

from headway.after_commit.observers import Observers
from headway.domain.job import ClaimedJob
from headway.domain.lifecycle import after_failure
from headway.domain.orders import ClaimOrder, QueueShare
from headway.domain.retry import Backoff
from headway.domain.settlement import Release
from headway.errors import Failure, InvalidPayload, StoreClosed
from headway.jobs.handler import Handler
from headway.jobs.ids import new_id, new_token
from headway.ports.clock import Clock
from headway.ports.notifications import JobsScheduled, Notification
from headway.ports.store import Store
from headway.runtime.store_errors import in_short, is_transient
from headway.worker.attempt import LEASE_EXPIRED, Attempt
from headway.worker.backoff import FailureStreak, sleep_unless
from headway.worker.committer import Committer
from headway.worker.settings import WorkerSettings
from headway.worker.slots import SUSPECT, Slots

SHORTEST_POLL = 0.05
HOARDED = 0.5
"""Seconds after which a claimed job that no slot was free for is given back."""
LAST_LOOK = 2.0
"""Seconds that a worker which stops looks for what an unanswered claim took."""
MOST_DUE_TIMES = 1_000
TRIES_TOGETHER = 3
"""How often the store is asked for the outputs of all blockers of a claim, before it is asked job
by job."""
LONGEST_PAUSE = 0.25
"""Seconds between these tries."""


class Fetcher:
    """One claim is under way at a time, at the same time as the committer's commits."""

    def __init__(
        self,
        settings: WorkerSettings,
        store: Store,
        clock: Clock,
        observers: Observers,
        handlers: Mapping[str, Handler],
        slots: Slots,
        held: set[Attempt],
        committer: Committer,
        dispatch: Callable[[], None],
        reap: Callable[[], Awaitable[None]],
        *,
        drain: bool,
    ) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._observers = observers
        self._handlers = handlers
        self._types = tuple(sorted(handlers))
        self._plain_types = tuple(name for name in self._types if not handlers[name].atomic)
        """Those whose handlers begin without a transaction."""
        self._transactions = store.transactions
        self._left_out = False
        """The last claim left job types out, because their handlers have all the transactions."""
        self._slots = slots
        self._one_queue = len(slots.queues) == 1
        self._held = held
        self._committer = committer
        self._dispatch = dispatch
        self._reap = reap
        self._drain = drain
        self._looked_everywhere = False
        """Since something was last claimed."""
        self.failures = FailureStreak(settings.worker_id, "fetcher", observers)
        self._outputs = FailureStreak(settings.worker_id, "fetcher", observers)
        """When the store does not say what blockers yielded."""
        self._stopped = asyncio.Event()
        self._waiter: asyncio.Future[None] | None = None
        self._hungry = True
        """There is reason to believe that something can be claimed."""
        self._claiming = False
        self._empty_handed = 0
        """Claims in a row that gave nothing."""
        self._unanswered: ClaimOrder | None = None
        """A claim that failed: the store may have granted it, and the answer was lost."""
        self._due_times: list[float] = []
        self._longest_pause = settings.poll_every

    def stop(self) -> None:
        """Claim no more. `run` returns when the claim under way has been answered."""
        self._stopped.set()
        self._wake()

    def hear(self, notification: Notification) -> None:
        """A notification from outside."""
        if isinstance(notification, JobsScheduled) and self._concerns(notification):
            self._store.expect(notification.queue, notification.run_at)
            # Its run_at may lie ahead, but whose clock is right? Looking once too often is cheap.
            self.expect()
            if notification.run_at is not None:
                self.expect((notification.run_at - datetime.now(UTC)).total_seconds())

    def hear_own(self, notification: Notification, seconds: float) -> bool:
        """This worker's own notification: a job can be claimed in so many seconds. Whether that
        wakes this worker, so that nobody else need wake for it."""
        if not isinstance(notification, JobsScheduled) or not self._concerns(notification):
            return False
        wakes = seconds <= 0 and self.is_idle()
        self.expect(seconds)
        return wakes

    def is_idle(self) -> bool:
        """Whether this worker has room and neither looks nor has reason to; may be asked from any
        thread. A claim under way may fill all its slots: others had better be woken."""
        slots = self._slots
        return (
            not self._hungry
            and not self._claiming
            and slots.running + slots.waiting < slots.concurrency
            and not slots.reserved
            and not self._committer.behind
            and not self._left_out
            and not self._stopped.is_set()
        )

    def rely_on_notifications(self, longest_pause: float | None) -> None:
        """Look this rarely when idle; None: without notifications, as often as one must. Either
        way something may have been missed, so look now."""
        self._longest_pause = longest_pause or self._settings.poll_every
        self._empty_handed = 0
        self.expect()

    def expect(self, seconds: float = 0.0) -> None:
        """Look for jobs in so many seconds."""
        if seconds <= 0:
            # Whoever was quicker took it: no reason to look more often than before.
            self._hungry = True
            self._wake()
        elif len(self._due_times) < MOST_DUE_TIMES:  # polling finds the others
            heapq.heappush(self._due_times, self._clock.monotonic() + seconds)
            self._wake()

    def freed(self) -> None:
        """Handlers have ended."""
        if self._left_out and self._most_atomic(1):
            self._left_out = False
            self._hungry = True
        if self._hungry:
            self._wake()

    def committed(self) -> None:
        """Outcomes are stored."""
        if self._drain and not self._held:
            self._hungry = True
        if self._hungry:
            self._wake()

    async def run(self) -> bool:
        """Returns when stopped; or, True, when told to drain and nothing is left to do."""
        loop = asyncio.get_running_loop()
        while not self._stopped.is_set():
            self._give_back_hoarded()
            self._slots.measure(self._clock.monotonic())
            shares, limit = self._slots.shares(self._settings.batch_size)
            if not (self._plain_types or self._most_atomic(1)):
                limit = 0
                self._left_out = True
            if not self._hungry or not limit or self._committer.behind:
                await self._rest()
                continue
            idle = not self._held
            self._hungry = self._left_out = False
            self._claiming = True
            try:
                count, full = await self._claim(shares, limit)
            except StoreClosed:
                raise
            except Exception as error:
                self._hungry = True
                await sleep_unless(self._stopped, self.failures.failed(error))
                continue
            finally:
                self._claiming = False
            self.failures.ended()
            self._empty_handed = 0 if count else self._empty_handed + 1
            self._looked_everywhere = self._looked_everywhere and not count
            if full and self._one_queue:
                # The next claim is on its way before these are run: the store works while we do.
                # Among several queues, what still waits would tell which of them to ask wrongly.
                self._hungry = True
                loop.call_soon(self._dispatch)
                continue
            self._dispatch()
            if full:
                self._hungry = True
                await asyncio.sleep(0)  # a store that never waits must not keep the loop
            elif self._drain and idle and not self._held and not self._hungry:
                if self._looked_everywhere:
                    return True
                await self._look_everywhere()
        if self._unanswered is not None:  # what it took is given back with all the rest
            self._unanswered = msgspec.structs.replace(self._unanswered, limit=0)
            with contextlib.suppress(Exception):
                async with asyncio.timeout(LAST_LOOK):
                    await self._claim((), 0)
        return False

    async def _look_everywhere(self) -> None:
        """Before a drain ends: what dead workers have left is given back, and no place is passed
        over in the next claim."""
        self._hungry = True
        try:
            await self._reap()
        except StoreClosed:
            raise
        except Exception as error:
            await sleep_unless(self._stopped, self.failures.failed(error))
            return
        for queue in self._slots.queues:
            self._store.expect(queue.name, None)
        self._looked_everywhere = True

    async def _claim(self, shares: tuple[QueueShare, ...], limit: int) -> tuple[int, bool]:
        """Claim, and put where they wait to be run; how many there were, and whether there may be
        more."""
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
        shares, room = self._slots.shares(limit - count)
        full = False
        if room and self._plain_types:
            others, full = await self._claim_types(self._plain_types, shares, room)
            count += others
        self._left_out = not self._most_atomic(1)
        return count, full or not self._left_out

    def _most_atomic(self, limit: int) -> int:
        """How many jobs with atomic handlers may be claimed, up to `limit`: each of them needs a
        transaction throughout. Those of other handlers end soon, and are waited for."""
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
        sent = self._clock.monotonic()
        lease_for = self._settings.lease_for
        slots = self._slots
        order = self._unanswered or ClaimOrder(
            worker=self._settings.worker_id,
            token=new_token(),
            lease_for=lease_for,
            queues=shares,
            types=types,
            limit=limit,
            most_losses=SUSPECT - 1 if slots.only_healthy else None,
        )
        try:
            claimed = await self._store.run(self._store.claim, order, now=self._clock.now())
        except Exception:
            self._unanswered = msgspec.structs.replace(order, again=True)
            raise
        self._unanswered = None
        only_healthy = order.most_losses is not None
        if not only_healthy:
            slots.probing = False
        if not claimed:
            # Nothing healthy waits. While a suspect runs, none of the others is wanted either.
            ended = only_healthy and not slots.reserved and slots.suspected is None
            if ended:
                slots.end_turn()
            return 0, ended
        await self._receive(claimed, sent + lease_for)
        if len(claimed) >= order.limit:
            return len(claimed), True
        taken = dict.fromkeys((share.name for share in order.queues), 0)
        for job in claimed:
            taken[job.queue] += 1
        return len(claimed), any(taken[share.name] >= share.limit for share in order.queues)

    async def _receive(self, claimed: Sequence[ClaimedJob], deadline: float) -> None:
        now = self._clock.monotonic()
        slots = self._slots
        find = self._handlers.get
        worker = self._settings.worker_id
        attempts = [
            Attempt(job, find(job.type), slots[job.queue], now, deadline, worker) for job in claimed
        ]
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
        """What the blockers yielded, for all jobs of a claim in one statement; the jobs that can be
        run then. Whatever goes wrong keeps others from being claimed for a moment only."""
        for _ in range(TRIES_TOGETHER):
            error = await self._try_for_outputs(blocked)
            if error is None:
                self._outputs.ended()
                break
            if await sleep_unless(self._stopped, min(self._outputs.failed(error), LONGEST_PAUSE)):
                return blocked  # to be given back with all the others
        else:
            blocked = await self._ask_one_by_one(blocked)
        if self._observers.tracer is not None:
            with contextlib.suppress(Exception):  # it is only asked for the sake of links
                await self._ask_for_traces(blocked)
        return blocked

    async def _ask_one_by_one(self, blocked: list[Attempt]) -> list[Attempt]:
        """One that the store cannot answer for must not keep the others waiting: it is
        dead-lettered if the store answers for others, and given back if it does not."""
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
                attempt.failure = Failure(InvalidPayload.__name__, reason)
                attempt.settlement = after_failure(
                    claimed, attempt.failure, Backoff(), recoverable=False
                )
            else:
                attempt.settlement = Release(claimed.id, claimed.lease.token)
            self._committer.put(attempt)
        return answered

    async def _try_for_outputs(self, blocked: list[Attempt]) -> Exception | None:
        """Why there is no answer, or None."""
        ids = [attempt.claimed.id for attempt in blocked]
        try:
            outputs = await self._store.run(self._store.blocker_outputs, ids or [new_id()])
        except Exception as error:
            return error
        for attempt in blocked:
            attempt.blockers = outputs.get(attempt.claimed.id, [])
        return None

    async def _ask_for_traces(self, blocked: list[Attempt]) -> None:
        """What the last jobs of the blockers carry."""
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

    def _give_back_hoarded(self) -> None:
        """Jobs that were claimed ahead, and then the running ones turned out to be long."""
        before = self._clock.monotonic() - HOARDED
        oldest = self._slots.oldest()
        if oldest is None or oldest >= before:
            return
        for attempt in self._slots.remove(lambda each: each.claimed_at < before):
            attempt.settlement = Release(attempt.claimed.id, attempt.claimed.lease.token)
            self._committer.put(attempt)

    async def _rest(self) -> None:
        """Wait until there is something to look for and room to put it."""
        if self._stopped.is_set():
            return
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        seconds = self._pause()
        timer = None if seconds is None else loop.call_later(seconds, self._look_again)
        try:
            await self._waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()
        now = self._clock.monotonic()
        while self._due_times and self._due_times[0] <= now:
            heapq.heappop(self._due_times)
            self._hungry = True
            self._empty_handed = 0  # by whose clock was it due? look again soon

    def _pause(self) -> float | None:
        """How long to wait for a notification at most."""
        if self._hungry:  # only room is lacking, and that makes itself heard
            return HOARDED if self._slots.waiting else None
        pause = min(self._longest_pause, SHORTEST_POLL * 2.0 ** min(self._empty_handed, 20))
        pause *= 0.75 + random() / 4
        if self._due_times:
            pause = min(pause, max(self._due_times[0] - self._clock.monotonic(), 0.0))
        return pause

    def _look_again(self) -> None:
        self._hungry = True
        self._wake()

    def _concerns(self, notification: JobsScheduled) -> bool:
        return notification.queue in self._slots and notification.type in self._handlers

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
