"""The shared part of notifiers that reach other processes through a server or sockets.

    publish -> own subscribers, send buffer -> sender -> connection -> server
    server -> connection -> own subscribers
    keeper: connect, listen, watch; after a loss: log it once, connect again with backoff

A vendor's part is its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from random import random
from typing import Any

from headway.domain.failure import first_line
from headway.errors import NotifierClosed
from headway.notifiers.connection import ConnectionCallbacks, NotifierConnection
from headway.notifiers.packets import LARGEST, Message, Packet, decode, encode, pack
from headway.notifiers.send_buffer import SendBuffer
from headway.notifiers.subscribers import Subscriber, Subscribers
from headway.ports.notifications import (
    EVERYTHING,
    Interest,
    JobsScheduled,
    Notification,
    SequenceEnded,
    Topic,
)
from headway.ports.notifier import Disposer, Listener, NotifierStatus, Reach, StatusListener
from headway.ports.statement import Operation
from headway.runtime.cancellation import Cancels
from headway.runtime.forks import Forkable

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.8
"""Seconds between tries to connect. Not longer: while a publisher is still disconnected, connected
listeners poll rarely and miss its notifications."""
LAST_SEND = 2.0
"""Seconds that closing waits for unsent notifications."""
AWAITED_FOR = 30.0
"""Seconds for which another process's report counts that it waits for ends of sequences."""

_log = logging.getLogger("headway")


class RemoteNotifier(Forkable):
    """Opening and closing never wait for a server that is away. Connects at the first publication
    or subscription, so a process without either needs no connection."""

    reach = Reach.EVERYONE
    largest = LARGEST
    """Bytes of a packet at most."""
    timeout = 5.0
    """Seconds to wait for any answer."""
    watch_every = 5.0
    """Seconds between checks of the connection."""

    def __init__(self, name: str) -> None:
        self.name = name
        """For log lines and errors; contains no secrets."""
        self.in_child()
        self.watch_forks()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    async def connect(self, callbacks: ConnectionCallbacks) -> NotifierConnection:
        """A new connection; it must use `callbacks` on the running loop only."""
        raise NotImplementedError

    def in_child(self) -> None:
        self._origin = secrets.token_hex(4)
        self._subscribers = Subscribers()
        self._reset()

    def _reset(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unsent = SendBuffer()
        self._filled = asyncio.Event()
        self._up = asyncio.Event()
        self._connection: NotifierConnection | None = None
        self._wanted: frozenset[Topic] = frozenset()
        self._active: frozenset[Topic] = frozenset()
        self._changed = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._failure = ""
        self._lost: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._keeping = False
        self._sending = False
        self._sent = asyncio.Event()
        self._closing = False
        self._awaited_until = float("-inf")
        self._asked_at = float("-inf")
        self._questions: dict[Topic, Packet] = {}

    async def open(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            return
        self._reset()
        self._loop = asyncio.get_running_loop()

    async def close(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            await self._on_own_loop(loop, self._close())
        self._loop = None
        self._subscribers.clear()

    async def publish(self, notifications: Sequence[Notification]) -> None:
        self._own_loop()
        self.publish_soon(notifications)

    def publish_soon(self, notifications: Sequence[Notification]) -> None:
        loop = self._loop
        if loop is None:
            return
        try:
            if _is_running(loop):
                self._publish(notifications)
            else:
                loop.call_soon_threadsafe(self._publish, tuple(notifications))
        except RuntimeError:  # the loop has been closed
            return

    async def subscribe(
        self,
        listener: Listener,
        interest: Interest = EVERYTHING,
        *,
        idle: Callable[[], bool] = lambda: True,
        on_status: StatusListener = lambda _: None,
    ) -> Disposer:
        loop = self._own_loop()
        subscriber = Subscriber(listener, interest, idle, on_status)
        self._subscribers.add(subscriber)
        if not interest.topics <= self._active:
            try:
                await self._on_own_loop(loop, self._listen(interest.topics))
            except BaseException:
                self._subscribers.remove(subscriber)
                raise
        if interest.sequences or interest.everything:
            self._call(self._ask_for_ends)
        on_status(NotifierStatus(connected=not self._failure, reason=self._failure))

        async def unsubscribe() -> None:
            self._subscribers.remove(subscriber)

        return unsubscribe

    def wants(self, kind: type[Notification]) -> bool:
        return kind is not SequenceEnded or self._subscribers.awaits_sequences or self._is_awaited()

    def within(self, store: str) -> Callable[[Sequence[Notification]], Operation[None]] | None:
        return None

    # Everything below runs on the loop that opened the notifier.

    def _publish(self, notifications: Sequence[Notification]) -> None:
        left = self._subscribers.deliver(notifications)
        if not self._is_awaited():
            left = [item for item in left if not isinstance(item, SequenceEnded)]
        if left:
            self._unsent.put(left)
            self._send_soon()

    def _is_awaited(self) -> bool:
        """Whether another process may wait for ends of sequences; true while not listening."""
        loop = self._loop
        return loop is not None and (
            Topic.LOST not in self._active or loop.time() < self._awaited_until
        )

    def _ask_for_ends(self) -> None:
        """Ask other processes to publish the ends of sequences; otherwise they skip them."""
        loop = self._loop
        if loop is not None and loop.time() - self._asked_at > AWAITED_FOR / 3:
            self._asked_at = loop.time()
            self._send_question(Topic.LOST, Packet(origin=self._origin, awaiting=True))

    def _send_question(self, topic: Topic, packet: Packet) -> None:
        """Send a packet without notifications: a question or an answer about subscribers."""
        self._questions[topic] = packet
        self._send_soon()

    def _send_soon(self) -> None:
        self._keep()
        self._sent.clear()
        self._filled.set()
        if not self._sending:
            self._sending = True
            self._spawn(self._send_all(), "headway notification sender")

    def _keep(self) -> None:
        if not self._keeping:
            self._keeping = True
            self._spawn(self._keep_connected(), "headway notifier keeper")

    async def _listen(self, topics: frozenset[Topic]) -> None:
        """Returns when the topics are active, or when connecting has failed."""
        self._wanted |= topics
        self._keep()
        self._changed.set()
        while not topics <= self._active and not self._failure and not self._closing:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    async def _keep_connected(self) -> None:
        failures = 0
        while True:
            connection: NotifierConnection | None = None
            self._lost = lost = asyncio.get_running_loop().create_future()
            try:
                async with self._in_time():
                    connection = await self.connect(
                        ConnectionCallbacks(self._receive, self._lose, self._subscribers.wake_one)
                    )
                await self._listen_on(connection)
                failures = 0
                self._connection_up(connection)
                await self._watch(connection, lost)
            except Exception as error:
                self._connection_down(error)
            finally:
                self._connection = None
                self._active = frozenset()
                self._up.clear()
                lost.cancel()
                if connection is not None:
                    await _quietly(connection.close())
            failures += 1
            ceiling = min(FIRST_PAUSE * 2.0 ** min(failures - 1, 30), LONGEST_PAUSE)
            await asyncio.sleep(ceiling * (0.5 + random() / 2))

    async def _watch(self, connection: NotifierConnection, lost: asyncio.Future[None]) -> None:
        """Check the connection, and listen to new topics, until it is lost: then raise."""
        while True:
            changed = asyncio.ensure_future(self._changed.wait())
            ends: set[asyncio.Future[Any]] = {lost, changed}
            try:
                await asyncio.wait(
                    ends,
                    timeout=self.watch_every,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            finally:
                changed.cancel()
            if lost.done():
                lost.result()
            if self._changed.is_set():
                await self._listen_on(connection)
            else:
                async with self._in_time():
                    await connection.watch()
            if self._subscribers.awaits_sequences:
                self._ask_for_ends()

    async def _listen_on(self, connection: NotifierConnection) -> None:
        self._changed.clear()
        missing = self._wanted - self._active
        if missing:
            async with self._in_time():
                await connection.listen(missing)
            self._active |= missing
            if Topic.LOST in missing:
                self._send_question(Topic.ENDED, Packet(origin=self._origin, asking=True))
        self._release_waiters()

    @contextlib.asynccontextmanager
    async def _in_time(self) -> AsyncGenerator[None]:
        """A time limit for everything that waits for the server."""
        async with asyncio.timeout(self.timeout):
            with Cancels():
                yield

    def _connection_up(self, connection: NotifierConnection) -> None:
        self._connection = connection
        self._up.set()
        if self._failure:
            self._failure = ""
            _log.info("notifications arrive again through the %s", self.name)
            self._asked_at = float("-inf")
            self._subscribers.report(NotifierStatus(connected=True))

    def _connection_down(self, error: Exception) -> None:
        reason = f"{type(error).__name__}: {first_line(error)}"
        if not self._failure:
            self._failure = reason
            _log.warning(
                "no notifications through the %s (%s); workers and waiting callers poll meanwhile",
                self.name,
                reason,
            )
            self._subscribers.report(NotifierStatus(connected=False, reason=reason))
        self._release_waiters()

    def _release_waiters(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            # A signal handler may cancel the waiter at any moment.
            with contextlib.suppress(asyncio.InvalidStateError):
                waiter.set_result(None)

    def _lose(self, error: Exception) -> None:
        if self._lost is not None and not self._lost.done():
            self._lost.set_exception(error)
            self._lost.exception()  # retrieved here, so that asyncio does not log it

    async def _send_all(self) -> None:
        tries = 0
        while True:
            await self._filled.wait()
            await self._up.wait()
            connection = self._connection
            if connection is None:
                continue
            self._filled.clear()
            notifications = self._unsent.take()
            messages, budgets = self._packed(notifications, connection)
            try:
                async with self._in_time():
                    await connection.send(messages, budgets)
                tries = 0
                if not self._filled.is_set():
                    self._sent.set()
            except Exception as error:
                tries += 1
                if tries == 1:  # send again once; a packet that breaks connections is dropped
                    self._unsent.put(notifications)
                    self._filled.set()
                self._up.clear()
                self._lose(error)

    def _packed(
        self, notifications: list[Notification], connection: NotifierConnection
    ) -> tuple[list[Message], list[tuple[str, int]]]:
        budgets: list[tuple[str, int]] = []
        if connection.counts:
            for place, item in enumerate(notifications):
                if isinstance(item, JobsScheduled) and item.count:
                    budget = secrets.token_hex(8)
                    budgets.append((budget, item.count))
                    notifications[place] = JobsScheduled(
                        item.queue, item.type, item.count, item.run_at, budget
                    )
        messages = pack(notifications, self._origin, self.largest)
        messages += [(topic, encode(packet)) for topic, packet in self._questions.items()]
        self._questions.clear()
        return messages, budgets

    def _receive(self, data: bytes | str) -> None:
        packet = decode(data)
        loop = self._loop
        if packet is None or loop is None or packet.origin == self._origin:
            return
        if packet.awaiting:
            self._awaited_until = loop.time() + AWAITED_FOR
        if packet.asking and self._subscribers.awaits_sequences:
            self._asked_at = float("-inf")
            self._ask_for_ends()
        plain: list[Notification] = []
        counted: list[JobsScheduled] = []
        for item in packet.notifications:
            if isinstance(item, JobsScheduled) and item.budget is not None:
                counted.append(item)
            else:
                plain.append(item)
        if plain:
            self._subscribers.deliver(plain)
        if counted:
            self._spawn(self._take_shares(counted), "headway notification shares")

    async def _take_shares(self, notifications: list[JobsScheduled]) -> None:
        """Wake as many subscribers as get a share of the budget."""
        wanted = [min(self._subscribers.idle(item), item.count) for item in notifications]
        granted = list(wanted)
        asked = [place for place, want in enumerate(wanted) if want]
        connection = self._connection
        if asked and connection is not None and connection.counts:
            try:
                async with self._in_time():
                    answers = await connection.take(
                        [(notifications[place].budget or "", wanted[place]) for place in asked]
                    )
                for place, answer in zip(asked, answers, strict=True):
                    granted[place] = answer
            except Exception as error:
                self._lose(error)
        for item, shares in zip(notifications, granted, strict=True):
            self._subscribers.deliver_jobs(item, shares)

    async def _close(self) -> None:
        await asyncio.sleep(0)  # publications of other threads arrive first
        if self._filled.is_set() or (self._sending and not self._sent.is_set()):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0 if self._failure else LAST_SEND):
                    await self._sent.wait()
        self._closing = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._release_waiters()

    def _spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        if self._closing:
            coroutine.close()
            return
        task = asyncio.create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _call(self, callback: Callable[[], None]) -> None:
        loop = self._own_loop()
        if _is_running(loop):
            callback()
        else:
            loop.call_soon_threadsafe(callback)

    def _own_loop(self) -> asyncio.AbstractEventLoop:
        loop = self._loop
        if loop is None or loop.is_closed():
            raise NotifierClosed(self.name)
        return loop

    async def _on_own_loop(
        self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, None]
    ) -> None:
        if _is_running(loop):
            await coroutine
        elif loop.is_running():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, loop))
        else:
            coroutine.close()


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


async def _quietly(closing: Coroutine[Any, Any, None]) -> None:
    with contextlib.suppress(Exception):
        async with asyncio.timeout(1.0):
            await closing
