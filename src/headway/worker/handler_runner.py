"""Runs handlers, each in a task of its own, and makes a settlement of how each ended.

    claimed job -> input decoded -> [timeout [user's middleware [handler]]] -> settlement

Nothing that a handler raises leaves this module.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from types import CodeType
from typing import Any

from headway.domain.events import QueueHeld
from headway.domain.lifecycle import after_failure, is_recoverable
from headway.domain.retry import Backoff
from headway.domain.settlement import Complete, Release, Reschedule
from headway.errors import Failure, UnknownJobType
from headway.jobs.handler import Handler, Mode
from headway.jobs.job import HoldAsked, Job, RescheduleAsked, is_continuation
from headway.jobs.plan import Succession, plan_successor
from headway.limits.changes import hold
from headway.ports.current_attempt import current_attempt
from headway.worker.attempt import LEASE_EXPIRED, SHUTDOWN, TIMEOUT, Attempt
from headway.worker.attempt_events import Reporter
from headway.worker.committer import Committer
from headway.worker.environment import WorkerEnvironment
from headway.worker.handler_transactions import WorkerTransactions
from headway.worker.isolation.pool import EncodedOutput, Isolation
from headway.worker.tracebacks import HandlerFailed, describe, type_name, users_part

CallNext = Callable[[], Awaitable[Any]]

Middleware = Callable[[Job[*tuple[Any, ...]], CallNext], Awaitable[Any]]
"""`async def layer(job, call_next)`: what it returns is what the handler is taken to have
returned, and what it raises fails the job. It runs on the worker's event loop, wherever the
handler itself runs."""

Ended = Callable[[Attempt], None]

_NO_BLOCKERS: tuple[Any, ...] = ()
HANDLER_THREAD = "headway-handler"
"""Prefix of the names of threads that run handlers."""

if sys.version_info >= (3, 12):

    def _new_task(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]
    ) -> asyncio.Task[None]:
        return asyncio.Task(work, loop=loop, eager_start=True)

else:

    def _new_task(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]
    ) -> asyncio.Task[None]:
        return loop.create_task(work)


class Runner:
    """Starts attempts and hands their settlements to the committer. Lives on one loop."""

    def __init__(
        self,
        environment: WorkerEnvironment,
        transactions: WorkerTransactions,
        committer: Committer,
        reporter: Reporter,
        middleware: Sequence[Middleware],
    ) -> None:
        self._transactions = transactions
        self._committer = committer
        self._observers = environment.observers
        self._reporter = reporter
        self._middleware = tuple(middleware)
        self._concurrency = environment.settings.concurrency
        self._store = environment.store
        self._clock = environment.clock
        self._monotonic = environment.clock.monotonic
        self._doubt = transactions.heartbeat.doubt
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._left_behind = False
        """A handler in a thread did not end when it was told to."""
        self._isolation = Isolation()
        self._holds = environment.failures("limits")

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        """Of the handlers that run now."""
        return self._tasks

    def start(self, attempt: Attempt, ended: Ended) -> None:
        """Run the handler in a task of its own; on Python 3.12 and later it begins at once. `ended`
        is called when the attempt has its settlement, or was lost."""
        handler = attempt.handler
        if (
            handler is not None
            and handler.mode is Mode.LOOP
            and not self._middleware
            and not handler.atomic
        ):
            work = self._run_plainly(attempt, handler, ended)
        else:
            work = self._run(attempt, handler, ended)
        task = _new_task(self._loop, work)
        if not task.done():
            attempt.task = task
            self._tasks.add(task)

    @classmethod
    def codes(cls) -> frozenset[CodeType]:
        """The code of the functions that run a handler and have a local variable `attempt`."""
        return frozenset((cls._run_plainly.__code__, cls._run.__code__))

    async def close(self) -> None:
        """End threads and child processes; a handler that still runs in a thread is left behind."""
        if self._threads is not None:
            self._threads.shutdown(wait=not self._left_behind, cancel_futures=True)
        await self._isolation.close()

    async def _run_plainly(self, attempt: Attempt, handler: Handler, ended: Ended) -> None:
        """The short way, for `async def` handlers without middleware and `atomic`."""
        try:
            if not self._begin(attempt):
                return
            claimed = attempt.claimed
            args, kwargs = self._arguments(attempt, handler)
            if handler.takes_job:
                job = Job(attempt, self._blockers(attempt, handler), self._transactions.of)
                value = await handler.function(job, *args, **kwargs)
                await self._completed(attempt, handler, job, value)
                return
            value = await handler.function(*args, **kwargs)
            if attempt.interrupted or is_continuation(value):
                await self._completed(attempt, handler, None, value)
            else:
                attempt.settlement = Complete(
                    claimed.id, claimed.lease.token, handler.encode_output(value)
                )
        except BaseException as error:
            await self._failed(attempt, error)
        finally:
            self._end(attempt)
            ended(attempt)

    async def _run(self, attempt: Attempt, handler: Handler | None, ended: Ended) -> None:
        """The whole way: threads, processes, middleware, atomic handlers, missing ones."""
        try:
            if not self._begin(attempt):
                return
            if handler is None:
                raise HandlerFailed(_no_handler(attempt.claimed.type), recoverable=False)
            args, kwargs = self._arguments(attempt, handler)
            job = Job(
                attempt,
                self._blockers(attempt, handler),
                self._transactions.of if handler.mode is Mode.LOOP else None,
            )
            if handler.takes_job:
                args = (job, *args)
            if handler.atomic:
                transactions = self._transactions.of(attempt)
                transactions.atomic = True
                await transactions.begin()
                attempt.began = self._monotonic()  # the wait for a transaction is not its own
                self._limit(attempt)
            match handler.mode:
                case Mode.LOOP:
                    call = partial(handler.function, *args, **kwargs)
                case Mode.THREAD:
                    function = partial(handler.function, *args, **kwargs)
                    call = partial(self._in_thread, attempt, function)
                case Mode.PROCESS:
                    call = partial(self._isolation.run, attempt, handler)
            for layer in reversed(self._middleware):
                call = partial(layer, job, call)
            value = await call()
            await self._completed(attempt, handler, job, value)
        except BaseException as error:
            await self._failed(attempt, error)
        finally:
            self._end(attempt)
            ended(attempt)

    def _begin(self, attempt: Attempt) -> bool:
        """False if it was interrupted before it could begin."""
        attempt.began = self._monotonic()
        if attempt.deadline <= attempt.began + self._doubt:  # the claim's answer came late
            attempt.interruption = attempt.interruption or LEASE_EXPIRED
        if attempt.interruption is not None:
            if attempt.interruption == SHUTDOWN:
                attempt.settlement = Release(attempt.claimed.id, attempt.claimed.lease.token)
            return False
        current_attempt.set(attempt)
        if attempt.handler is None or not attempt.handler.atomic:
            self._limit(attempt)
        if self._observers.active:
            self._reporter.started(attempt, attempt.began)
        return True

    def _limit(self, attempt: Attempt) -> None:
        timeout = attempt.claimed.timeout
        if timeout is not None:
            attempt.timer = self._loop.call_later(timeout, attempt.interrupt, TIMEOUT)

    def _end(self, attempt: Attempt) -> None:
        if attempt.timer is not None:
            attempt.timer.cancel()
        if attempt.task is not None:
            self._tasks.discard(attempt.task)
            attempt.task = None  # whose context holds the attempt
        if attempt.began is not None:
            attempt.seconds = self._monotonic() - attempt.began
        if attempt.transactions is not None:
            attempt.transactions.leave()  # a preparation that the handler has not left
            attempt.transactions = None  # they hold the attempt in turn

    def _arguments(
        self, attempt: Attempt, handler: Handler
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        try:
            return handler.decode_input(attempt.claimed.input)
        except Exception as error:
            raise _unreadable(error) from None

    def _blockers(self, attempt: Attempt, handler: Handler) -> tuple[Any, ...]:
        if attempt.blockers is None:
            return _NO_BLOCKERS
        try:
            return handler.decode_blockers(attempt.blockers)
        except Exception as error:
            raise _unreadable(error) from None

    async def _completed(
        self, attempt: Attempt, handler: Handler, job: Job[*tuple[Any, ...]] | None, value: Any
    ) -> None:
        """The handler returned: settle through the committer, or in the transaction it opened."""
        attempt.leave_alone()
        if attempt.interruption == TIMEOUT:
            raise TimeoutError
        if attempt.lost:
            await self._failed(attempt, asyncio.CancelledError())
            return
        claimed = attempt.claimed
        if job is not None:
            job.check_continued(value)
        succession: Succession | None = None
        output: str | None = None
        if is_continuation(value):
            succession = plan_successor(value.request, claimed, attempt.onward_trace)
        elif isinstance(value, EncodedOutput):
            output = value.text
        else:
            output = handler.encode_output(value)
        complete = Complete(
            claimed.id,
            claimed.lease.token,
            output,
            None if succession is None else succession.successor,
        )
        transactions = attempt.transactions
        if transactions is None or not transactions.open:
            if succession is None or not succession.blockers:
                attempt.settlement = complete
                return
            # New blockers and the successor that waits for them are stored together or not at all.
            transactions = self._transactions.of(attempt)
            await transactions.begin()
        transaction = await transactions.commit(complete, succession)
        attempt.settlement = complete
        attempt.seconds = self._monotonic() - (attempt.began or 0.0)
        self._committer.completed_in(transaction, attempt)

    async def _failed(self, attempt: Attempt, error: BaseException) -> None:
        """The handler raised, or its completion could not be stored."""
        attempt.leave_alone()
        if attempt.transactions is not None:
            try:
                await attempt.transactions.roll_back(error)
            except BaseException as worse:
                worse.__context__ = error
                if not isinstance(error, RescheduleAsked | HoldAsked):
                    error = worse if attempt.interruption is None else error
        claimed = attempt.claimed
        token = claimed.lease.token
        not_to_blame = False
        if attempt.interruption is None:
            not_to_blame = await self._paused_for_store(attempt, error)
        if attempt.interruption == TIMEOUT:
            error = HandlerFailed(_timed_out(claimed.timeout))
        elif attempt.interruption == SHUTDOWN:
            attempt.settlement = Release(claimed.id, token)
            return
        elif attempt.interruption is not None:
            attempt.settlement = None  # it is not ours to settle
            return
        elif not_to_blame:
            attempt.settlement = Release(claimed.id, token)
            return
        elif isinstance(error, RescheduleAsked):
            attempt.settlement = Reschedule(claimed.id, token, error.schedule)
            return
        elif isinstance(error, HoldAsked):
            attempt.settlement = await self._held_queue(attempt, error)
            return
        if isinstance(error, HandlerFailed):
            failure, recoverable = error.failure, error.recoverable
        else:
            failure, recoverable = describe(error), is_recoverable(error)
            if self._observers.exceptions:
                attempt.exception = error.with_traceback(users_part(error.__traceback__))
        attempt.failure = failure
        policy = Backoff() if attempt.handler is None else attempt.handler.retry
        attempt.settlement = after_failure(claimed, failure, policy, recoverable=recoverable)

    async def _held_queue(self, attempt: Attempt, asked: HoldAsked) -> Release | Reschedule:
        """Hold the queue before the job is given back, or it would be claimed at once. If the store
        does not take that, only this job waits."""
        claimed = attempt.claimed
        key = claimed.key if asked.key else None
        if attempt.timer is not None:
            attempt.timer.cancel()
        try:
            until = await self._store.run(
                hold, self._store, claimed.queue, key, asked.schedule, now=self._clock.now()
            )
        except (Exception, asyncio.CancelledError) as error:
            self._holds.failed(error)
            return Reschedule(claimed.id, claimed.lease.token, asked.schedule)
        self._holds.ended()
        self._observers.observe(QueueHeld(claimed.queue, key, until, claimed.id, claimed.type))
        return Release(claimed.id, claimed.lease.token)

    async def _paused_for_store(self, attempt: Attempt, error: BaseException) -> bool:
        """Whether the store is to blame: it did not give or did not commit a transaction. The job
        is kept for a pause before it is given back: the next try would fail as well now."""
        transactions = attempt.transactions
        if transactions is None or not transactions.is_stores_error(error):
            return False
        if attempt.timer is not None:
            attempt.timer.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(self._transactions.failures.failed(error))
        return True

    async def _in_thread(self, attempt: Attempt, call: Callable[[], Any]) -> Any:
        """Run a blocking handler. It cannot be stopped from outside: when it is interrupted, this
        waits for it to notice. A second cancellation leaves it behind: then its job is not given
        back, because it still runs, and its lease runs out."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._concurrency, HANDLER_THREAD)
        context = copy_context()
        raised: list[BaseException] = []
        work = self._loop.run_in_executor(
            self._threads, lambda: context.run(_returned_or_raised, call, raised)
        )
        try:
            value = await asyncio.shield(work)
        except asyncio.CancelledError:
            try:
                value = await asyncio.shield(work)
            except asyncio.CancelledError:
                attempt.interruption = LEASE_EXPIRED
                self._left_behind = True
                raise
            if not attempt.interrupted:  # the user's own layers have cancelled it
                raise
        if raised:
            raise raised.pop()
        return value


def _returned_or_raised(call: Callable[[], Any], raised: list[BaseException]) -> Any:
    """A future cannot carry every exception (not StopIteration); a list can, and lets it go: in a
    future it would hold itself, by the frames of the thread, and all that the handler held."""
    try:
        return call()
    except BaseException as error:
        raised.append(error)
        return None


def _unreadable(error: Exception) -> HandlerFailed:
    """Input that cannot be decoded fails the job without a retry."""
    return HandlerFailed(Failure(type_name(type(error)), str(error)), recoverable=False)


def _no_handler(type_: str) -> Failure:
    return Failure(
        type_name(UnknownJobType),
        f"the worker that claimed this job has no handler for job type {type_!r}; "
        "deploy one that has, then retry the job",
    )


def _timed_out(timeout: float | None) -> Failure:
    return Failure("TimeoutError", f"the execution took longer than its timeout of {timeout:g} s")
