"""Handlers in processes of their own, for work that holds the interpreter or must be stoppable.

Children are started when needed, run one job at a time and are used again. Each leads a process
group. One whose job is interrupted is killed with its group, whatever it does at that moment, and
so are all when this process ends or dies.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import spawn
from multiprocessing.process import BaseProcess
from typing import Any

from headway.domain.request import Continuation
from headway.errors import ConfigurationError, Failure
from headway.jobs.handler import Handler
from headway.jobs.job import HoldAsked, RescheduleAsked
from headway.worker.attempt import Attempt
from headway.worker.isolation import child_process, orphan_killer
from headway.worker.isolation.child_progress import hear_progress
from headway.worker.isolation.logs import log_here
from headway.worker.isolation.messages import (
    Continued,
    HeldQueue,
    Logged,
    Order,
    Outcome,
    Raised,
    Rescheduled,
    Returned,
    Spent,
    Told,
    decode_message,
    encode,
    framed,
    length,
    received_request,
    received_schedule,
)
from headway.worker.tracebacks import HandlerFailed, type_name


class EncodedOutput:
    """The output of an isolated handler, encoded."""

    __slots__ = ("text",)

    def __init__(self, text: str | None) -> None:
        self.text = text


class Isolation:
    """The child processes of one worker. Lives on one loop."""

    def __init__(self) -> None:
        self._idle: list[_Child] = []
        self._children: set[_Child] = set()
        self._guard: _Guard | None = None

    async def run(self, attempt: Attempt, handler: Handler) -> Any:
        """Run a handler and return what it returned. Cancelling this kills the child."""
        if handler.reference is None:
            raise HandlerFailed(
                Failure(
                    type_name(ConfigurationError), "an isolated handler must be a module's function"
                ),
                recoverable=False,
            )
        order = Order(
            handler.reference,
            attempt.claimed,
            attempt.blockers,
            attempt.worker,
            attempt.trace_id,
            attempt.spender is not None,
            logging.getLogger().getEffectiveLevel(),
        )
        child = self._get()
        try:
            outcome = await child.perform(order, attempt)
        except (EOFError, OSError) as error:
            await self._end(child)
            raise HandlerFailed(_death(child.exit_code)) from error
        except BaseException:
            await self._end(child)
            raise
        self._idle.append(child)
        match outcome:
            case Returned():
                return EncodedOutput(outcome.output)
            case Continued():
                return Continuation(received_request(outcome.request))
            case Rescheduled():
                raise RescheduleAsked(received_schedule(outcome.schedule))
            case HeldQueue():
                raise HoldAsked(received_schedule(outcome.schedule), key=outcome.key)
            case Raised():
                raise HandlerFailed(outcome.failure, recoverable=outcome.recoverable)

    async def close(self) -> None:
        for child in [*self._idle, *self._children]:
            await self._end(child)
        self._idle.clear()
        if self._guard is not None:
            self._guard.close()
            self._guard = None

    def _get(self) -> _Child:
        while self._idle:
            child = self._idle.pop()
            if not child.gone.done():
                return child
            child.disconnect()
        if self._guard is None and os.name == "posix" and not getattr(sys, "frozen", False):
            self._guard = _Guard()
        child = _Child(self._guard, self._children.discard)
        self._children.add(child)
        return child

    async def _end(self, child: _Child) -> None:
        """Kill a child and wait for its end; it is killed even if this is cancelled."""
        child.kill()
        child.disconnect()
        await asyncio.shield(child.gone)


class _Guard:
    """The process that kills the children when this one has died."""

    def __init__(self) -> None:
        # A session of its own: Ctrl-C in a terminal is not for it.
        self._process = subprocess.Popen(
            [spawn.get_executable(), "-I", "-S", orphan_killer.__file__, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def tell(self, what: str) -> None:
        with contextlib.suppress(OSError):  # somebody has killed it: children end by themselves
            if self._process.stdin is not None:
                os.write(self._process.stdin.fileno(), what.encode())

    def close(self) -> None:
        self._process.kill()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


class _Child:
    """One process with its group, and the connection to it."""

    def __init__(self, guard: _Guard | None, forget: Callable[[_Child], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._guard = guard
        self._forget = forget
        self._socket, theirs = socket.socketpair()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self.exit_code: int | None = None
        self._parent = os.getpid()
        self._process: BaseProcess = multiprocessing.get_context("spawn").Process(
            target=child_process.main, args=(theirs,), name="headway-isolated"
        )
        try:
            self._process.start()
        except BaseException:
            self._socket.close()
            raise
        finally:
            theirs.close()
        self._pid = self._process.pid or 0
        if guard is not None:
            guard.tell(f"+{self._pid}\n")
        atexit.register(self.kill)  # before multiprocessing waits for it without end
        self._end = _end_of(self._process)
        self._loop.add_reader(self._end, self._notice)

    async def perform(self, order: Order, attempt: Attempt) -> Outcome:
        """Raises EOFError or OSError if the process dies over it."""
        if self._streams is None:
            self._streams = await self._connect()
        reader, writer = self._streams
        writer.write(framed(encode(order)))
        # Its own children may hold on to the connection when it is gone: do not rely on its end.
        answer = asyncio.ensure_future(self._answer(reader, attempt))
        try:
            ends: set[asyncio.Future[Any]] = {answer, self.gone}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.1):  # for what it sent before
                        await asyncio.wait({answer})
            if not answer.done():
                raise EOFError
            return answer.result()
        finally:
            answer.cancel()

    def kill(self) -> None:
        """The process and its group; a child that has only begun leads none yet."""
        if self.gone.done() or os.getpid() != self._parent:  # a fork of the worker ends
            return
        if os.name == "posix":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
                return
        self._process.kill()

    def disconnect(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
        self._socket.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self._socket.setblocking(False)
        if self._socket.family == socket.AF_UNIX:
            return await asyncio.open_unix_connection(sock=self._socket)
        return await asyncio.open_connection(sock=self._socket)

    async def _answer(self, reader: asyncio.StreamReader, attempt: Attempt) -> Outcome:
        while True:
            (size,) = length.unpack(await reader.readexactly(length.size))
            message = decode_message(await reader.readexactly(size))
            if isinstance(message, Logged):
                log_here(message)
            elif isinstance(message, Told):
                hear_progress(message, attempt)
            elif isinstance(message, Spent):
                if message.job_id == attempt.claimed.id:
                    attempt.spend(message.weight)
            else:
                return message

    def _notice(self) -> None:
        """It has ended: kill the processes that it has started, and release it. Its process id is
        not reused before it is waited for."""
        self._loop.remove_reader(self._end)
        self.kill()
        if self._guard is not None:
            self._guard.tell(f"-{self._pid}\n")
        self._process.join()
        self.exit_code = self._process.exitcode
        if self._end != self._process.sentinel:
            os.close(self._end)
        with contextlib.suppress(ValueError):  # somebody else has waited for it
            self._process.close()
        atexit.unregister(self.kill)
        self._forget(self)
        self.gone.set_result(None)


def _end_of(process: BaseProcess) -> int:
    """A descriptor that becomes readable when the process ends: on Linux even while processes that
    it has started hold its descriptors open."""
    try:
        return os.pidfd_open(process.pid or 0)
    except (AttributeError, OSError):
        return process.sentinel


def _death(code: int | None) -> Failure:
    if code is not None and code < 0:
        try:
            how = f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            how = f"was killed by signal {-code}"
        if code == -signal.SIGKILL:
            how += " (by the system, perhaps for want of memory)"
    else:
        how = f"ended with exit code {code}"
    return Failure("ProcessDied", f"the process that ran the job {how}")
