"""Runs handlers, each in a task of its own, and decides what becomes of their jobs.

    claimed job -> input decoded -> [timeout [user's middleware [handler]]] -> settlement

Nothing that a handler raises leaves this module.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from types import CodeType
from typing import Any

from headway.after_commit.observers import Observers
from headway.after_commit.report import Reporter, onward
from headway.domain.lifecycle import after_failure, is_recoverable
from headway.domain.retry import Backoff
from headway.domain.settlement import Complete, Release, Reschedule
from headway.errors import Failure, InvalidPayload, UnknownJobType
from headway.jobs.handler import Handler, Mode
from headway.jobs.job import Job, RescheduleAsked, is_continuation
from headway.jobs.plan import Succession, plan_successor
from headway.ports.attempt import current_attempt
from headway.worker.attempt import LEASE_EXPIRED, SHUTDOWN, TIMEOUT, Execution
from headway.worker.committer import Committer
from headway.worker.isolation.processes import EncodedOutput, Isolation
from headway.worker.middleware import Middleware, wrap
from headway.worker.tracebacks import HandlerFailed, describe
from headway.worker.transactions import Desk, Staging

_NO_BLOCKERS: tuple[Any, ...] = ()
HANDLER_THREAD = "headway-handler"
"""How the names of threads begin in which handlers run."""

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
    """Starts executions and hands their settlements to the committer. Lives on one loop."""

    def __init__(
        self,
        desk: Desk,
        committer: Committer,
        observers: Observers,
        reporter: Reporter,
        middleware: Sequence[Middleware],
        concurrency: int,
        ended: Callable[[Execution], None],
    ) -> None:
        self._desk = desk
        self._committer = committer
        self._observers = observers
        self._reporter = reporter
        self._middleware = tuple(middleware)
        self._concurrency = concurrency
        self._ended = ended
        self._monotonic = desk.clock.monotonic
        self._doubt = desk.heartbeat.doubt
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._left_behind = False
        """A handler in a thread did not end when it was told to."""
        self._isolation = Isolation()

    @property
    def tasks(self) -> set[asyncio.Task[None]]:
        """Of the handlers that run now."""
        return self._tasks

    def start(self, execution: Execution) -> None:
        """Run the handler in a task of its own; on Python 3.12 and later it begins at once."""
        handler = execution.handler
        if (
            handler is not None
            and handler.mode is Mode.LOOP
            and not self._middleware
            and not handler.atomic
        ):
            work = self._run_plainly(execution, handler)
        else:
            work = self._run(execution, handler)
        task = _new_task(self._loop, work)
        if not task.done():
            execution.task = task
            self._tasks.add(task)

    @classmethod
    def codes(cls) -> frozenset[CodeType]:
        """By which a frame can be told that runs a handler, with its `execution`."""
        return frozenset((cls._run_plainly.__code__, cls._run.__code__))

    async def close(self) -> None:
        """Let go of threads and processes; whatever still runs in them is left to itself."""
        if self._threads is not None:
            self._threads.shutdown(wait=not self._left_behind, cancel_futures=True)
        await self._isolation.close()

    async def _run_plainly(self, execution: Execution, handler: Handler) -> None:
        """The short way, for `async def` handlers without further ado."""
        try:
            if not self._begin(execution):
                return
            claimed = execution.claimed
            args, kwargs = self._arguments(execution, handler)
            if handler.takes_job:
                execution.job = job = Job(execution, self._blockers(execution, handler), self._desk)
                value = await handler.function(job, *args, **kwargs)
            else:
                value = await handler.function(*args, **kwargs)
            if handler.takes_job or execution.interrupted or is_continuation(value):
                await self._completed(execution, handler, value)
            else:
                execution.settlement = Complete(
                    claimed.id, claimed.lease.token, handler.encode_output(value)
                )
        except BaseException as error:
            await self._failed(execution, error)
        finally:
            self._end(execution)

    async def _run(self, execution: Execution, handler: Handler | None) -> None:
        """The whole way: threads, processes, middleware, atomic handlers, missing ones."""
        try:
            if not self._begin(execution):
                return
            if handler is None:
                raise HandlerFailed(_no_handler(execution.claimed.type), recoverable=False)
            args, kwargs = self._arguments(execution, handler)
            job = Job(
                execution,
                self._blockers(execution, handler),
                self._desk if handler.mode is Mode.LOOP else None,
            )
            execution.job = job
            if handler.takes_job:
                args = (job, *args)
            if handler.atomic:
                staging = execution.staging = Staging(execution, self._desk)
                staging.atomic = True
                await staging.begin()
                execution.began = self._monotonic()  # the wait for a transaction is not its own
                self._limit(execution)
            match handler.mode:
                case Mode.LOOP:
                    call = partial(handler.function, *args, **kwargs)
                case Mode.THREAD:
                    function = partial(handler.function, *args, **kwargs)
                    call = partial(self._in_thread, execution, function)
                case Mode.PROCESS:
                    call = partial(self._isolation.run, execution, handler)
            value = await wrap(self._middleware, job, call)()
            await self._completed(execution, handler, value)
        except BaseException as error:
            await self._failed(execution, error)
        finally:
            self._end(execution)

    def _begin(self, execution: Execution) -> bool:
        """False if it was interrupted before it could begin."""
        execution.began = self._monotonic()
        if execution.deadline <= execution.began + self._doubt:  # the claim's answer came late
            execution.interruption = execution.interruption or LEASE_EXPIRED
        if execution.interruption is not None:
            if execution.interruption == SHUTDOWN:
                execution.settlement = Release(execution.claimed.id, execution.claimed.lease.token)
            return False
        current_attempt.set(execution)
        if execution.handler is None or not execution.handler.atomic:
            self._limit(execution)
        if self._observers.active:
            self._reporter.started(execution, execution.began)
        return True

    def _limit(self, execution: Execution) -> None:
        timeout = execution.claimed.timeout
        if timeout is not None:
            execution.timer = self._loop.call_later(timeout, execution.interrupt, TIMEOUT)

    def _end(self, execution: Execution) -> None:
        if execution.timer is not None:
            execution.timer.cancel()
        if execution.task is not None:
            self._tasks.discard(execution.task)
            execution.task = None  # whose context holds the execution
        if execution.began is not None:
            execution.seconds = self._monotonic() - execution.began
        if execution.staging is not None:
            execution.staging.leave()  # a preparation that the handler has not left
        execution.job = execution.staging = None  # they hold the execution in turn
        self._ended(execution)

    def _arguments(
        self, execution: Execution, handler: Handler
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        try:
            return handler.decode_input(execution.claimed.input)
        except Exception as error:
            raise _unreadable(error) from None

    def _blockers(self, execution: Execution, handler: Handler) -> tuple[Any, ...]:
        if execution.blockers is None:
            return _NO_BLOCKERS
        try:
            return handler.decode_blockers(execution.blockers)
        except Exception as error:
            raise _unreadable(error) from None

    async def _completed(self, execution: Execution, handler: Handler, value: Any) -> None:
        """The handler returned: settle through the committer, or in the transaction it opened."""
        execution.leave_alone()
        if execution.interruption == TIMEOUT:
            raise TimeoutError
        if execution.lost:
            await self._failed(execution, asyncio.CancelledError())
            return
        claimed = execution.claimed
        if execution.job is not None:
            execution.job.check_continued(value)
        succession: Succession | None = None
        output: str | None = None
        if is_continuation(value):
            succession = plan_successor(value.request, claimed, onward(execution))
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
        blockers = () if succession is None else succession.blockers
        staging = execution.staging
        if staging is None or not staging.open:
            if not blockers:
                execution.settlement = complete
                return
            # New blockers and the successor that waits for them are stored together or not at all.
            staging = execution.staging = staging or Staging(execution, self._desk)
            await staging.begin()
        committed = await staging.commit(complete, blockers)
        execution.settlement = complete
        execution.seconds = self._monotonic() - (execution.began or 0.0)
        self._committer.committed_elsewhere(execution, committed)

    async def _failed(self, execution: Execution, error: BaseException) -> None:
        """The handler raised, or what it asked for could not be done."""
        execution.leave_alone()
        if execution.staging is not None:
            try:
                await execution.staging.roll_back(error)
            except BaseException as worse:
                worse.__context__ = error
                if not isinstance(error, RescheduleAsked):
                    error = worse if execution.interruption is None else error
        claimed = execution.claimed
        token = claimed.lease.token
        not_to_blame = False
        if execution.interruption is None:
            not_to_blame = await self._paused_for_store(execution, error)
        if execution.interruption == TIMEOUT:
            error = HandlerFailed(_timed_out(claimed.timeout))
        elif execution.interruption == SHUTDOWN:
            execution.settlement = Release(claimed.id, token)
            return
        elif execution.interruption is not None:
            execution.settlement = None  # it is not ours to settle
            return
        elif not_to_blame:
            execution.settlement = Release(claimed.id, token)
            return
        elif isinstance(error, RescheduleAsked):
            execution.settlement = Reschedule(claimed.id, token, error.schedule)
            return
        if isinstance(error, HandlerFailed):
            failure, recoverable = error.failure, error.recoverable
        else:
            failure, recoverable = describe(error), is_recoverable(error)
        execution.failure = failure
        policy = Backoff() if execution.handler is None else execution.handler.retry
        execution.settlement = after_failure(claimed, failure, policy, recoverable=recoverable)

    async def _paused_for_store(self, execution: Execution, error: BaseException) -> bool:
        """Whether the store is to blame, which did not give a transaction or did not commit it. The
        job is kept for a while before it is given back: the next try would fare no better now."""
        staging = execution.staging
        if staging is None or not staging.is_stores_error(error):
            return False
        if execution.timer is not None:
            execution.timer.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(self._desk.trouble.began(error))
        return True

    async def _in_thread(self, execution: Execution, call: Callable[[], Any]) -> Any:
        """Run a blocking handler. It cannot be stopped from outside: when it is interrupted, this
        waits for it to notice. Who cancels a second time leaves it behind: then its job is not
        given back, for it still runs, and its lease is left to run out."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._concurrency, HANDLER_THREAD)
        context = copy_context()
        work = self._loop.run_in_executor(
            self._threads, lambda: context.run(_returned_or_raised, call)
        )
        try:
            value, error = await asyncio.shield(work)
        except asyncio.CancelledError:
            try:
                value, error = await asyncio.shield(work)
            except asyncio.CancelledError:
                execution.interruption = LEASE_EXPIRED
                self._left_behind = True
                raise
            if not execution.interrupted:  # the user's own layers have cancelled it
                raise
        if error is not None:
            raise error
        return value


def _returned_or_raised(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """A future cannot carry every exception (not StopIteration); a pair can."""
    try:
        return call(), None
    except BaseException as error:
        return None, error


def _unreadable(error: Exception) -> HandlerFailed:
    """Input that cannot be read will not be readable the next time either."""
    name = InvalidPayload.__name__ if isinstance(error, InvalidPayload) else type(error).__name__
    return HandlerFailed(Failure(name, str(error)), recoverable=False)


def _no_handler(type_: str) -> Failure:
    return Failure(
        UnknownJobType.__name__,
        f"the worker that claimed this job has no handler for job type {type_!r}; "
        "deploy one that has, then retry the job",
    )


def _timed_out(timeout: float | None) -> Failure:
    return Failure("TimeoutError", f"the execution took longer than its timeout of {timeout:g} s")
