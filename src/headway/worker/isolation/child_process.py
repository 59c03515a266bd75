"""The child's side of isolation: runs the jobs that the worker sends, one at a time.

It ignores the signals that ask to stop, for the worker decides when it ends, and it never outlives
the worker: the worker's guard kills it, or it ends when the connection ends. The processes that
handlers have started end with it, unless they have left its process group.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import os
import queue
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import NoReturn

from headway.domain.lifecycle import is_recoverable
from headway.errors import ConfigurationError, Failure
from headway.jobs.handler import Handler, isolated
from headway.jobs.job import HoldAsked, Job, RescheduleAsked, is_continuation
from headway.jobs.plan import plan_successor
from headway.ports.current_attempt import current_attempt
from headway.worker.isolation.child_progress import ChildAttempt, ProgressSender
from headway.worker.isolation.logs import LogForwarder
from headway.worker.isolation.messages import (
    Continued,
    HeldQueue,
    Message,
    Order,
    Outcome,
    Raised,
    Rescheduled,
    Returned,
    Spent,
    decode_order,
    encode,
    framed,
    length,
    raised,
    sent_request,
    sent_schedule,
)
from headway.worker.tracebacks import describe, type_name

if sys.platform != "win32":
    import fcntl


def main(connection: socket.socket) -> None:
    _lead_a_group()
    _disregard_signals()
    child = Child(connection)
    if os.name == "posix":
        os.register_at_fork(after_in_child=child.in_fork)
    child.run()


class Child:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._sending = threading.Lock()
        self._turn = _Turn()
        self._forked = False
        self._logs = LogForwarder(self._send)
        self._progress = ProgressSender(self._send)

    def run(self) -> None:
        threading.Thread(target=self._listen, name="headway-orders", daemon=True).start()
        while True:
            order = self._orders.get()
            self._logs.install(order.log_level)
            outcome = perform(order, self._progress.watch, self._spend)
            if self._forked:
                _end_fork(outcome)
            text = _dump(outcome)
            self._progress.watch(None)
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()
            self._send_text(text)

    def in_fork(self) -> None:
        """In a process that a handler has forked: it gets no orders and must not answer."""
        self._forked = True
        self._sending = threading.Lock()

    def _spend(self, job_id: str, weight: int) -> None:
        self._send(Spent(job_id, weight))

    def _send(self, message: Message) -> None:
        self._send_text(encode(message))

    def _send_text(self, text: bytes) -> None:
        with self._sending, self._turn:
            self._connection.sendall(framed(text))

    def _listen(self) -> None:
        """Read orders; the end of the connection is the end of the worker."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                (size,) = length.unpack(self._read(length.size))
                self._orders.put(decode_order(self._read(size)))
        _end_with_group()

    def _read(self, size: int) -> bytes:
        text = bytearray()
        while len(text) < size:
            part = self._connection.recv(size - len(text))
            if not part:
                raise EOFError
            text += part
        return bytes(text)


class _Turn:
    """Lets one process at a time send: forks of a handler log over the same connection. It is a
    file's lock, because the system releases that when its holder dies."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process lives

    def __enter__(self) -> None:
        if sys.platform != "win32":
            fcntl.lockf(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        if sys.platform != "win32":
            fcntl.lockf(self._file, fcntl.LOCK_UN)


def perform(
    order: Order,
    watch: Callable[[ChildAttempt], None],
    spend: Callable[[str, int], None],
) -> Outcome:
    """Run a handler. Never raises."""
    try:
        handler = find_handler(order.reference)
        try:
            args, kwargs = handler.decode_input(order.claimed.input)
            blockers = handler.decode_blockers(order.blockers or ())
        except Exception as error:
            return raised(Failure(type_name(type(error)), str(error)), recoverable=False)
        attempt = ChildAttempt(
            order.claimed, order.worker, order.trace_id, spender=spend if order.rated else None
        )
        job = Job(attempt, blockers, None)
        current_attempt.set(attempt)
        if handler.takes_job:
            watch(attempt)
        value = handler.function(*((job, *args) if handler.takes_job else args), **kwargs)
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
        job.check_continued(value)
        if is_continuation(value):
            plan_successor(value.request, order.claimed)  # it says what is wrong with the request
            return Continued(sent_request(value.request))
        return Returned(handler.encode_output(value))
    except RescheduleAsked as asked:
        return Rescheduled(sent_schedule(asked.schedule))
    except HoldAsked as asked:
        return HeldQueue(sent_schedule(asked.schedule), asked.key)
    except BaseException as error:
        return raised(describe(error), recoverable=is_recoverable(error))


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


def _dump(outcome: Outcome) -> bytes:
    try:
        return encode(outcome)
    except Exception as error:
        return encode(raised(describe(error), recoverable=False))


def _lead_a_group() -> None:
    """Start a session and a process group, for all processes that handlers start."""
    if os.name == "posix":
        os.setsid()


def _end_with_group() -> None:
    if os.name == "posix":
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _end_fork(outcome: Outcome) -> NoReturn:
    """A fork of a handler has left the handler, as `sys.exit()` does. It ends here: its answer
    would be taken for its parent's, and its parent's for the next job's."""
    code = int(isinstance(outcome, Raised))
    if isinstance(outcome, Raised):
        said = outcome.failure.message
        if outcome.failure.type != "SystemExit":
            sys.stderr.write(outcome.failure.traceback)
        elif said.isdecimal() or said in ("", "None"):
            code = int(said) & 0xFF if said.isdecimal() else 0
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


def _disregard_signals() -> None:
    """Signals that ask to stop have an empty handler. `SIG_IGN` would be inherited by the processes
    that handlers start."""

    def heed_not(*_: object) -> None: ...

    before = {number: signal.signal(number, heed_not) for number in (signal.SIGINT, signal.SIGTERM)}

    def heed() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    if os.name == "posix":
        os.register_at_fork(after_in_child=heed)
