"""The child's side of isolation: takes orders from the worker, one job at a time.

It ignores the signals that ask to stop, for the worker decides when it ends, and it never outlives
the worker: Linux kills it with its parent, and elsewhere the end of the connection tells.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import inspect
import os
import pickle
import queue
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeGuard

import msgspec

from headway.domain.errors import ConfigurationError
from headway.domain.failure import Failure
from headway.domain.job import ClaimedJob
from headway.domain.lifecycle import is_recoverable
from headway.domain.request import SequenceReference, Step
from headway.domain.schedule import After, At
from headway.engine.context import Job, RescheduleAsked, decode_blockers, is_continuation
from headway.engine.execution import Execution
from headway.engine.failing import describe
from headway.engine.handler import Handler, isolated
from headway.engine.isolation_logs import Forwarding
from headway.engine.isolation_progress import Telling
from headway.engine.lanes import Lane
from headway.engine.settings import WorkQueue
from headway.ports.running import current_attempt

PR_SET_PDEATHSIG = 1

_length = struct.Struct("!I")


class Order(msgspec.Struct, frozen=True):
    reference: str
    claimed: ClaimedJob
    blockers: list[str | None] | None
    worker: str
    trace_id: str | None
    log_level: int


class Returned(msgspec.Struct, frozen=True):
    output: str | None


class Continued(msgspec.Struct, frozen=True):
    step: Step[Any]


class Rescheduled(msgspec.Struct, frozen=True):
    schedule: At | After


class Raised(msgspec.Struct, frozen=True):
    failure: Failure
    recoverable: bool


Reply = Returned | Continued | Rescheduled | Raised


def main(connection: socket.socket, parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _die_with(parent)
    Child(connection).run()


class Child:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self._busy = False
        self._sending = threading.Lock()
        self._logs = Forwarding(self._send)
        self._progress = Telling(self._send)

    def run(self) -> None:
        threading.Thread(target=self._listen, name="headway-orders", daemon=True).start()
        while (order := self._orders.get()) is not None:
            self._busy = True
            self._logs.install(order.log_level)
            text = _dump(perform(order, self._progress.watch))
            self._progress.watch(None)
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
            self._busy = False
            self._send(text)
        os._exit(0)  # not held up by threads that handlers left behind

    def _send(self, text: bytes) -> None:
        with self._sending:
            self._connection.sendall(_length.pack(len(text)) + text)

    def _listen(self) -> None:
        """Read orders; the end of the connection is the end of the worker."""
        try:
            while True:
                (length,) = _length.unpack(self._read(_length.size))
                self._orders.put(pickle.loads(self._read(length)))
        except (EOFError, OSError):
            if self._busy:
                os._exit(1)
            self._orders.put(None)

    def _read(self, size: int) -> bytes:
        text = bytearray()
        while len(text) < size:
            part = self._connection.recv(size - len(text))
            if not part:
                raise EOFError
            text += part
        return bytes(text)


def perform(order: Order, watch: Callable[[Execution], None]) -> Reply:
    """Run a handler. Never raises."""
    try:
        handler = find_handler(order.reference)
        try:
            args, kwargs = handler.arguments(order.claimed.input)
            blockers = decode_blockers(
                order.blockers or (), handler.blocker_decoders, handler.any_number
            )
        except Exception as error:
            return Raised(Failure(type(error).__name__, str(error)), recoverable=False)
        lane = Lane(WorkQueue(order.claimed.queue), 1)
        execution = Execution(order.claimed, handler, lane, 0.0, 0.0, order.worker)
        execution.trace_id = order.trace_id
        job = Job(execution, blockers, None)
        current_attempt.set(execution)
        if handler.takes_job:
            watch(execution)
        value = handler.function(*((job, *args) if handler.takes_job else args), **kwargs)
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
        job.check_continued(value)
        if is_continuation(value):
            return Continued(_portable(value.step))
        return Returned(handler.encode_output(value))
    except RescheduleAsked as asked:
        return Rescheduled(asked.schedule)
    except BaseException as error:
        return Raised(describe(error), is_recoverable(error))


def find_handler(reference: str) -> Handler:
    """Import the module, which makes its handlers known. A script is imported under another name
    in children, and its functions are named accordingly."""
    module, _, name = reference.partition(":")
    if module == "__main__":
        module = "__mp_main__"
    importlib.import_module(module)
    handler = isolated.get(f"{module}:{name}")
    if handler is None:
        raise ConfigurationError(
            f"an isolated handler must be found by importing its module, and {reference!r} was not:"
            " define it at the top level of a module"
        )
    return handler


def _portable(step: Step[Any]) -> Step[Any]:
    """The step without what cannot leave this process."""

    def blocker(each: Any) -> Any:
        if _is_step(each):
            return _portable(each)
        return SequenceReference[Any](each.id) if isinstance(each, SequenceReference) else each

    return step.__class__(
        step.type,
        step.input,
        step.options,
        needs=step.needs,
        blockers=tuple(blocker(each) for each in step.blockers),
        id=step.id,
    )


def _is_step(value: object) -> TypeGuard[Step[Any]]:
    return isinstance(value, Step)


def _dump(reply: Reply) -> bytes:
    try:
        return pickle.dumps(reply)
    except Exception as error:
        return pickle.dumps(Raised(describe(error), recoverable=False))


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.name == "posix" and os.getppid() != parent:  # it died before we asked to be told
        os._exit(1)
