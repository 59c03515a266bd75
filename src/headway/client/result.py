"""Waiting for the result of a sequence.

The async client subscribes to notifications, reads the state, then waits for a notification or the
next poll. The sync client only polls.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from headway.domain.failure import decode_failure
from headway.domain.job import JobRecord, JobState
from headway.domain.validation import check_seconds
from headway.errors import (
    Failure,
    JobNotFound,
    ResultCancelled,
    ResultFailed,
    ResultTimeout,
)
from headway.ports.notifications import Interest, Notification
from headway.ports.notifier import Disposer, Listener, Notifier, NotifierStatus, StatusListener
from headway.ports.store import Store
from headway.runtime.poll_interval import polling_saved

POLL_EVERY = 0.1
"""Seconds between polls while no notifications can be received."""
LESS_OFTEN = 2.0
"""How many times longer than a worker a waiting client pauses: there may be many clients."""

_log = logging.getLogger("headway")
_NOT_ENDED: Final = object()


async def wait_for_result(
    store: Store,
    sequence_id: str,
    decode: Callable[[str | None], Any],
    *,
    notifier: Notifier,
    timeout: float | None,
    poll_every: float,
) -> Any:
    """The output of the sequence. Raises ResultTimeout, ResultFailed, ResultCancelled, and
    JobNotFound if the sequence does not exist or is deleted meanwhile."""
    _check_timeout(timeout)
    loop = asyncio.get_running_loop()
    deadline = None if timeout is None else loop.time() + timeout
    ended = asyncio.Event()
    pauses = _Pauses(poll_every, polling_saved(store, notifier) * LESS_OFTEN)

    def listen(_: Notification) -> None:
        ended.set()

    def attend(status: NotifierStatus) -> None:
        pauses.told = status.connected
        ended.set()  # notifications may have been missed

    dispose = await _subscribe(notifier, sequence_id, listen, attend)
    try:
        while True:
            ended.clear()
            (job,) = await store.run(store.current, [sequence_id])
            result = _result(job, sequence_id, decode)
            if result is not _NOT_ENDED:
                return result
            pause = pauses.next()
            if deadline is not None:
                pause = min(pause, deadline - loop.time())
                if pause <= 0:
                    raise _late(job, sequence_id, timeout)
            try:
                async with asyncio.timeout(pause):
                    await ended.wait()
            except TimeoutError:
                pass
    finally:
        if dispose is not None:
            await dispose()


def wait_for_result_sync(
    store: Store,
    sequence_id: str,
    decode: Callable[[str | None], Any],
    *,
    timeout: float | None,
    poll_every: float,
) -> Any:
    """The same without an event loop, and without notifications."""
    _check_timeout(timeout)
    deadline = None if timeout is None else time.monotonic() + timeout
    pause = min(0.01, poll_every)
    while True:
        (job,) = store.run_sync(store.current, [sequence_id])
        result = _result(job, sequence_id, decode)
        if result is not _NOT_ENDED:
            return result
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise _late(job, sequence_id, timeout)
            pause = min(pause, left)
        time.sleep(pause)
        pause = min(pause * 1.5, poll_every)


class _Pauses:
    """Seconds between polls: longer and longer while notifications can be received."""

    def __init__(self, poll_every: float, longer: float) -> None:
        self.told = False
        self._shortest = self._pause = poll_every
        self._longest = poll_every * longer

    def next(self) -> float:
        if not self.told:
            return self._shortest
        pause, self._pause = self._pause, min(self._pause * 1.5, self._longest)
        return pause


async def _subscribe(
    notifier: Notifier, sequence_id: str, listen: Listener, attend: StatusListener
) -> Disposer | None:
    interest = Interest(sequences=frozenset((sequence_id,)))
    try:
        return await notifier.subscribe(listen, interest, on_status=attend)
    except Exception:
        _log.warning("no notifications can be received; polling instead", exc_info=True)
        return None


def _result(job: JobRecord | None, sequence_id: str, decode: Callable[[str | None], Any]) -> Any:
    if job is None:
        raise JobNotFound(sequence_id)
    match job.state:
        case JobState.COMPLETED:
            return decode(job.output)
        case JobState.FAILED:
            failure = (
                Failure("Error", "no reason was recorded")
                if job.last_error is None
                else decode_failure(job.last_error)
            )
            raise ResultFailed(sequence_id, job.id, job.type, failure)
        case JobState.CANCELLED:
            raise ResultCancelled(sequence_id)
        case JobState.BLOCKED | JobState.PENDING | JobState.RUNNING:
            return _NOT_ENDED


def _late(job: JobRecord | None, sequence_id: str, timeout: float | None) -> ResultTimeout:
    return ResultTimeout(sequence_id, timeout or 0.0, "absent" if job is None else job.state)


def _check_timeout(timeout: float | None) -> None:
    if timeout is not None:
        check_seconds("a timeout", timeout, zero=True)
