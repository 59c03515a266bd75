"""What all notifiers share that reach other processes through something that can be away.

    publish -> own subscribers, then the outbox -> sender -> link -> ... -> link -> own subscribers
                                                     |
    keeper: connect, listen, watch; lost -> say so once, connect again with backoff, listen again

A vendor's part is its link: one connection, from the moment it is up until it is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from random import random
from typing import Any

from headway.errors import NotifierClosed
from headway.notifiers.connection import Ears, Link
from headway.notifiers.packets import LARGEST, Message, Packet, decode, encode, pack
from headway.notifiers.send_buffer import Outbox
from headway.notifiers.subscribers import Hub, Subscriber
from headway.ports.notifications import (
    EVERYTHING,
    Interest,
    JobsScheduled,
    News,
    SequenceEnded,
    Topic,
)
from headway.ports.notifier import Attendant, Disposer, Hearing, Listener, Reach
from headway.ports.statement import Operation
from headway.runtime.cancellation import Cancels
from headway.runtime.forks import Forkable

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.8
"""Seconds between tries to connect. Not longer: while a publisher's link is down and its listeners'
are up again, these wait for news that cannot come."""
LAST_SEND = 2.0
"""Seconds that closing waits for what is to be sent."""
AWAITED_FOR = 30.0
"""Seconds for which somebody's word counts that there is someone who waits for sequences."""

_log = logging.getLogger("headway")


class LinkedNotifier(Forkable):
    """Opening and closing never wait for a server that is away. Connects when first needed, so
    that a process that neither starts nor waits for anything costs no connection."""

    reach = Reach.EVERYONE
    largest = LARGEST
    """Bytes of a packet at most."""
    patience = 5.0
    """Seconds that any answer is waited for."""
    watch_every = 5.0
    """Seconds between two looks at whether the link is alive."""

    def __init__(self, name: str) -> None:
        self.name = name
        """For messages, without secrets."""
        self.in_child()
        self.watch_forks()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    async def connect(self, ears: Ears) -> Link:
        """A new link, which must call `ears` from the running loop only."""
        raise NotImplementedError

    def in_child(self) -> None:
        self._origin = secrets.token_hex(4)
        self._hub = Hub()
        self._reset()

    def _reset(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._outbox = Outbox()
        self._filled = asyncio.Event()
        self._up = asyncio.Event()
        self._link: Link | None = None
        self._wanted: frozenset[Topic] = frozenset()
        self._active: frozenset[Topic] = frozenset()
        self._changed = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._trouble = ""
        self._lost: asyncio.Future[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._keeping = False
        self._sending = False
        self._sent = asyncio.Event()
        self._closing = False
        self._awaited_until = float("-inf")
        self._said_awaiting = float("-inf")
        self._to_say: dict[Topic, Packet] = {}

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
        self._hub.clear()

    async def publish(self, news: Sequence[News]) -> None:
        self._own_loop()
        self.publish_soon(news)

    def publish_soon(self, news: Sequence[News]) -> None:
        loop = self._loop
        if loop is None:
            return
        try:
            if _is_running(loop):
                self._take_up(news)
            else:
                loop.call_soon_threadsafe(self._take_up, tuple(news))
        except RuntimeError:  # the loop has been closed
            return

    async def subscribe(
        self,
        listener: Listener,
        interest: Interest = EVERYTHING,
        *,
        idle: Callable[[], bool] = lambda: True,
        hearing: Attendant = lambda _: None,
    ) -> Disposer:
        loop = self._own_loop()
        subscriber = Subscriber(listener, interest, idle, hearing)
        self._hub.add(subscriber)
        if not interest.topics <= self._active:
            try:
                await self._on_own_loop(loop, self._listen(interest.topics))
            except BaseException:
                self._hub.remove(subscriber)
                raise
        if interest.sequences or interest.everything:
            self._call(self._say_awaiting)
        hearing(Hearing(flows=not self._trouble, reason=self._trouble))

        async def unsubscribe() -> None:
            self._hub.remove(subscriber)

        return unsubscribe

    def wants(self, kind: type[News]) -> bool:
        return kind is not SequenceEnded or self._hub.awaits_sequences or self._is_awaited()

    def within(self, store: str) -> Callable[[Sequence[News]], Operation[None]] | None:
        return None

    # Everything below runs on the loop that opened the notifier.

    def _take_up(self, news: Sequence[News]) -> None:
        left = self._hub.tell(news)
        if not self._is_awaited():
            left = [item for item in left if not isinstance(item, SequenceEnded)]
        if left:
            self._outbox.put(left)
            self._send_soon()

    def _is_awaited(self) -> bool:
        """Whether another process may wait for sequences; who does not listen cannot know."""
        loop = self._loop
        return loop is not None and (
            Topic.LOST not in self._active or loop.time() < self._awaited_until
        )

    def _say_awaiting(self) -> None:
        """Have others publish the ends of sequences, which they else save themselves."""
        loop = self._loop
        if loop is not None and loop.time() - self._said_awaiting > AWAITED_FOR / 3:
            self._said_awaiting = loop.time()
            self._say(Topic.LOST, Packet(origin=self._origin, awaiting=True))

    def _say(self, topic: Topic, packet: Packet) -> None:
        """Send a packet that is not news but about it."""
        self._to_say[topic] = packet
        self._send_soon()

    def _send_soon(self) -> None:
        self._keep()
        self._sent.clear()
        self._filled.set()
        if not self._sending:
            self._sending = True
            self._spawn(self._send_all(), "headway news sender")

    def _keep(self) -> None:
        if not self._keeping:
            self._keeping = True
            self._spawn(self._keep_linked(), "headway news keeper")

    async def _listen(self, topics: frozenset[Topic]) -> None:
        """Returns when the topics are heard, or when it is clear that they cannot be, yet."""
        self._wanted |= topics
        self._keep()
        self._changed.set()
        while not topics <= self._active and not self._trouble and not self._closing:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    async def _keep_linked(self) -> None:
        failures = 0
        while True:
            link: Link | None = None
            self._lost = lost = asyncio.get_running_loop().create_future()
            try:
                async with self._in_time():
                    link = await self.connect(Ears(self._heard, self._lose, self._hub.nudge))
                await self._listen_on(link)
                failures = 0
                self._link_up(link)
                await self._attend(link, lost)
            except Exception as error:
                self._link_down(error)
            finally:
                self._link = None
                self._active = frozenset()
                self._up.clear()
                lost.cancel()
                if link is not None:
                    await _quietly(link.close())
            failures += 1
            ceiling = min(FIRST_PAUSE * 2.0 ** min(failures - 1, 30), LONGEST_PAUSE)
            await asyncio.sleep(ceiling * (0.5 + random() / 2))

    async def _attend(self, link: Link, lost: asyncio.Future[None]) -> None:
        """Until the link is lost, which raises."""
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
                await self._listen_on(link)
            else:
                async with self._in_time():
                    await link.watch()
            if self._hub.awaits_sequences:
                self._say_awaiting()

    async def _listen_on(self, link: Link) -> None:
        self._changed.clear()
        missing = self._wanted - self._active
        if missing:
            async with self._in_time():
                await link.listen(missing)
            self._active |= missing
            if Topic.LOST in missing:
                self._say(Topic.ENDED, Packet(origin=self._origin, asking=True))
        self._let_go()

    @contextlib.asynccontextmanager
    async def _in_time(self) -> AsyncGenerator[None]:
        """Around whatever waits for the link."""
        async with asyncio.timeout(self.patience):
            with Cancels():
                yield

    def _link_up(self, link: Link) -> None:
        self._link = link
        self._up.set()
        if self._trouble:
            self._trouble = ""
            _log.info("news flows again through the %s", self.name)
            self._said_awaiting = float("-inf")
            self._hub.say(Hearing(flows=True))

    def _link_down(self, error: Exception) -> None:
        reason = f"{type(error).__name__}: {_first_line(error)}"
        if not self._trouble:
            self._trouble = reason
            _log.warning(
                "no news through the %s (%s); whoever waits looks for itself meanwhile",
                self.name,
                reason,
            )
            self._hub.say(Hearing(flows=False, reason=reason))
        self._let_go()

    def _let_go(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            # A signal's handler may cancel who waits at any moment, also right after a look.
            with contextlib.suppress(asyncio.InvalidStateError):
                waiter.set_result(None)

    def _lose(self, error: Exception) -> None:
        if self._lost is not None and not self._lost.done():
            self._lost.set_exception(error)
            self._lost.exception()  # whoever waits for it is told; nobody else need be

    async def _send_all(self) -> None:
        tries = 0
        while True:
            await self._filled.wait()
            await self._up.wait()
            link = self._link
            if link is None:
                continue
            self._filled.clear()
            news = self._outbox.take()
            messages, budgets = self._packed(news, link)
            try:
                async with self._in_time():
                    await link.send(messages, budgets)
                tries = 0
                if not self._filled.is_set():
                    self._sent.set()
            except Exception as error:
                tries += 1
                if tries == 1:  # doubled news is fine; news that breaks links is not
                    self._outbox.put(news)
                    self._filled.set()
                self._up.clear()
                self._lose(error)

    def _packed(self, news: list[News], link: Link) -> tuple[list[Message], list[tuple[str, int]]]:
        budgets: list[tuple[str, int]] = []
        if link.counts:
            for place, item in enumerate(news):
                if isinstance(item, JobsScheduled) and item.count:
                    hint = secrets.token_hex(8)
                    budgets.append((hint, item.count))
                    news[place] = JobsScheduled(
                        item.queue, item.type, item.count, item.run_at, hint
                    )
        messages = pack(news, self._origin, self.largest)
        messages += [(topic, encode(packet)) for topic, packet in self._to_say.items()]
        self._to_say.clear()
        return messages, budgets

    def _heard(self, data: bytes | str) -> None:
        packet = decode(data)
        loop = self._loop
        if packet is None or loop is None or packet.origin == self._origin:
            return
        if packet.awaiting:
            self._awaited_until = loop.time() + AWAITED_FOR
        if packet.asking and self._hub.awaits_sequences:
            self._said_awaiting = float("-inf")
            self._say_awaiting()
        plain: list[News] = []
        counted: list[JobsScheduled] = []
        for item in packet.news:
            if isinstance(item, JobsScheduled) and item.hint is not None:
                counted.append(item)
            else:
                plain.append(item)
        if plain:
            self._hub.tell(plain)
        if counted:
            self._spawn(self._take_shares(counted), "headway news shares")

    async def _take_shares(self, news: list[JobsScheduled]) -> None:
        """Wake as many as get a share of the budget."""
        wanted = [min(self._hub.idle(item), item.count) for item in news]
        granted = list(wanted)
        asked = [place for place, want in enumerate(wanted) if want]
        link = self._link
        if asked and link is not None and link.counts:
            try:
                async with self._in_time():
                    answers = await link.take(
                        [(news[place].hint or "", wanted[place]) for place in asked]
                    )
                for place, answer in zip(asked, answers, strict=True):
                    granted[place] = answer
            except Exception as error:
                self._lose(error)
        for item, shares in zip(news, granted, strict=True):
            self._hub.hand_out(item, shares)

    async def _close(self) -> None:
        await asyncio.sleep(0)  # threads may have published just now
        if self._filled.is_set() or (self._sending and not self._sent.is_set()):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0 if self._trouble else LAST_SEND):
                    await self._sent.wait()
        self._closing = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._let_go()

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


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or ["no reason given"])[0]
