"""Server-sent events: one task reads the store for all browsers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Generator
from typing import Generic, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

T = TypeVar("T")

STREAM_FOR = 25.0
"""Seconds; browsers connect again by themselves. A server that shuts down waits for its streams,
so none is long."""

logger = logging.getLogger("headway.web")


class Broadcast(Generic[T]):
    """Reads while there are listeners, and sends each value to all of them. Slow listeners miss
    values. A failed read ends the streams; browsers connect again.
    """

    def __init__(self, read: Callable[[], Awaitable[T]], *, every: float) -> None:
        self._read = read
        self._every = every
        self._listeners: set[asyncio.Queue[T | None]] = set()
        self._reader: asyncio.Task[None] | None = None
        self._troubled = False

    @contextlib.contextmanager
    def listening(self) -> Generator[asyncio.Queue[T | None]]:
        """A queue of the values; None ends it."""
        queue: asyncio.Queue[T | None] = asyncio.Queue(1)
        self._listeners.add(queue)
        if self._reader is None or self._reader.done():
            self._reader = asyncio.create_task(self._read_on())
        try:
            yield queue
        finally:
            self._listeners.discard(queue)
            if not self._listeners:
                self._reader.cancel()
                self._reader = None

    def end(self) -> None:
        """End all streams now."""
        for queue in self._listeners:
            with contextlib.suppress(asyncio.QueueEmpty):
                queue.get_nowait()
            queue.put_nowait(None)

    async def _read_on(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                began = loop.time()
                value = await self._read()
                self._troubled = False
                for queue in self._listeners:
                    with contextlib.suppress(asyncio.QueueEmpty):
                        queue.get_nowait()
                    queue.put_nowait(value)
                # A slow store is asked less often.
                await asyncio.sleep(max(self._every, 9 * (loop.time() - began)))
        except Exception as error:
            if not self._troubled:  # once; browsers try again every second
                logger.warning("live updates stopped: %s", error)
            self._troubled = True
            self.end()


class EventStream(Response, Generic[T]):
    """The values of a broadcast as events, until the client leaves or time is up."""

    def __init__(self, broadcast: Broadcast[T], encode: Callable[[T], bytes]) -> None:
        super().__init__(media_type="text/event-stream", headers={"x-accel-buffering": "no"})
        self._broadcast = broadcast
        self._encode = encode

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [pair for pair in self.raw_headers if pair[0] != b"content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.create_task(_disconnected(receive))
        loop = asyncio.get_running_loop()
        ends = loop.time() + STREAM_FOR
        try:
            with self._broadcast.listening() as queue:
                await _send(send, b"retry: 1000\n\n")
                while (left := ends - loop.time()) > 0:
                    value = await _first(queue, gone, left)
                    if value is None:
                        break
                    await _send(send, self._encode(value))
        finally:
            gone.cancel()
        if not gone.done():
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def event(name: str, data: str) -> bytes:
    """One event as it goes over the wire; the data's lines are kept apart."""
    lines = "".join(f"data: {line}\n" for line in data.split("\n"))
    return f"event: {name}\n{lines}\n".encode()


async def _send(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _first(
    queue: asyncio.Queue[T | None], gone: asyncio.Task[None], timeout: float
) -> T | None:
    """The next value; None if the broadcast ended, the client left or the time is up."""
    getting = asyncio.create_task(queue.get())
    try:
        await asyncio.wait({getting, gone}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        return getting.result() if getting.done() else None
    finally:
        getting.cancel()
