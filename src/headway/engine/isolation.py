"""Handlers in processes of their own, for work that holds the interpreter or must be stoppable.

Children are started when needed, run one job at a time and are used again. One whose job is
interrupted is killed, whatever it does at that moment, and so are all when this process dies.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import multiprocessing
import os
import pickle
import signal
import socket
import struct
from multiprocessing.process import BaseProcess
from typing import Any

from headway.domain.failure import Failure
from headway.domain.request import Continuation
from headway.engine import isolation_child
from headway.engine.context import RescheduleAsked
from headway.engine.execution import Execution
from headway.engine.failing import HandlerFailed
from headway.engine.handler import Handler
from headway.engine.isolation_child import Continued, Order, Raised, Reply, Rescheduled, Returned
from headway.engine.isolation_logs import Logged, log_here
from headway.engine.isolation_progress import Told, hear_progress
from headway.providers.forks import Forkable

CLOSING = 2.0
"""Seconds that an idle child has for ending by itself."""

_length = struct.Struct("!I")


class EncodedOutput:
    """What an isolated handler returned, as it will be stored."""

    __slots__ = ("text",)

    def __init__(self, text: str | None) -> None:
        self.text = text


class Isolation:
    """The child processes of one worker. Lives on one loop."""

    def __init__(self) -> None:
        self._idle: list[_Child] = []
        self._children: set[_Child] = set()

    async def run(self, execution: Execution, handler: Handler) -> Any:
        """Run a handler and return what it returned. Cancelling this kills the child."""
        if handler.reference is None:
            raise HandlerFailed(
                Failure("ConfigurationError", "an isolated handler must be a module's function"),
                recoverable=False,
            )
        child = await self._get()
        order = Order(
            handler.reference,
            execution.claimed,
            execution.blockers,
            execution.worker,
            execution.trace_id,
            logging.getLogger().getEffectiveLevel(),
        )
        try:
            reply = await child.perform(order, execution)
        except (EOFError, OSError) as error:
            await self._bury(child)
            raise HandlerFailed(_death(child.process.exitcode)) from error
        except BaseException:
            await self._bury(child)
            raise
        self._idle.append(child)
        match reply:
            case Returned():
                return EncodedOutput(reply.output)
            case Continued():
                return Continuation(reply.step)
            case Rescheduled():
                raise RescheduleAsked(reply.schedule)
            case Raised():
                raise HandlerFailed(reply.failure, recoverable=reply.recoverable)

    async def close(self) -> None:
        for child in self._idle:
            child.dismiss()
        for child in list(self._children):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSING if child in self._idle else 0):
                    await asyncio.shield(child.gone)
            await self._bury(child)
        self._idle.clear()

    async def _get(self) -> _Child:
        while self._idle:
            child = self._idle.pop()
            if not child.gone.done():
                return child
            await self._bury(child)
        child = _Child()
        self._children.add(child)
        child.watch_forks()
        atexit.register(child.kill)  # before multiprocessing waits for it without end
        await child.connect()
        return child

    async def _bury(self, child: _Child) -> None:
        """Make sure that it is dead, and let go of what is left of it."""
        child.kill()
        await asyncio.shield(child.gone)
        child.let_go()
        atexit.unregister(child.kill)
        self._children.discard(child)


class _Child(Forkable):
    """One process, and the connection to it."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._socket, theirs = socket.socketpair()
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self.gone: asyncio.Future[None] = loop.create_future()
        context = multiprocessing.get_context("spawn")
        self.process: BaseProcess = context.Process(
            target=isolation_child.main, args=(theirs, os.getpid()), name="headway-isolated"
        )
        try:
            # On the loop's own thread: Linux kills the child when the thread that began it ends.
            self.process.start()
        except BaseException:
            self._socket.close()
            raise
        finally:
            theirs.close()
        loop.add_reader(self.process.sentinel, self._notice)

    async def connect(self) -> None:
        self._socket.setblocking(False)
        if self._socket.family == socket.AF_UNIX:
            opened = asyncio.open_unix_connection(sock=self._socket)
        else:
            opened = asyncio.open_connection(sock=self._socket)
        self._reader, self._writer = await opened

    async def perform(self, order: Order, execution: Execution) -> Reply:
        """Raises EOFError or OSError if the process dies over it."""
        if self._reader is None or self._writer is None:
            raise EOFError
        text = pickle.dumps(order)
        self._writer.write(_length.pack(len(text)) + text)
        # Its own children may hold on to the connection when it is gone: do not rely on its end.
        answer = asyncio.ensure_future(self._answer(self._reader, execution))
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

    async def _answer(self, reader: asyncio.StreamReader, execution: Execution) -> Reply:
        while True:
            (length,) = _length.unpack(await reader.readexactly(_length.size))
            reply: Reply | Logged | Told = pickle.loads(await reader.readexactly(length))
            if isinstance(reply, Logged):
                log_here(reply)
            elif isinstance(reply, Told):
                hear_progress(reply, execution)
            else:
                return reply

    def dismiss(self) -> None:
        """An idle child ends when its connection does."""
        if self._writer is not None:
            self._writer.close()

    def in_child(self) -> None:
        atexit.unregister(self.kill)

    def kill(self) -> None:
        if self.process.is_alive():
            self.process.kill()

    def let_go(self) -> None:
        """After its death."""
        self.dismiss()
        self._socket.close()
        self.process.join()

    def _notice(self) -> None:
        asyncio.get_running_loop().remove_reader(self.process.sentinel)
        self.process.join()
        if not self.gone.done():
            self.gone.set_result(None)


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
