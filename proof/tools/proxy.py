"""A TCP proxy in front of PostgreSQL that delays, cuts, swallows and resets, in a process's thread.

It reads along: that a client has sent COMMIT is seen in the bytes, so that a connection can be cut
right after it, before the answer comes back.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from typing import Any

COMMIT = b"commit\0"


class Proxy:
    """Listens on `port`, or on a free one; what it does to the bytes is set by its attributes, at
    any time."""

    def __init__(self, target: int, port: int = 0) -> None:
        self._target = target
        self.delay = 0.0
        """Seconds by which everything is late."""
        self.swallow = False
        """Nothing goes through any more, and nobody is told."""
        self.cut_commits = 0.0
        """The part of commits after which the connection is reset before their answer."""
        self.commits_cut = 0
        self.lost_mark = b""
        self.answers_to_lose = 0
        """How often the connection is reset before an answer that holds the mark."""
        self.port = port
        self._loop = asyncio.new_event_loop()
        self._links: set[_Link] = set()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="proxy")
        self._thread.start()
        ready.wait()

    def reset_all(self) -> None:
        """Every connection ends with a reset."""
        self._loop.call_soon_threadsafe(self._reset_all)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _reset_all(self) -> None:
        for link in list(self._links):
            link.reset()

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", self.port)
        )
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()
        server.close()
        self._reset_all()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while self.swallow:
            await asyncio.sleep(0.05)
        try:
            inner = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        link = _Link(self, (reader, writer), inner)
        self._links.add(link)
        try:
            await link.run()
        finally:
            self._links.discard(link)


class _Link:
    """One connection, both ways."""

    def __init__(self, proxy: Proxy, outer: Any, inner: Any) -> None:
        self._proxy = proxy
        self._outer = outer
        self._inner = inner

    async def run(self) -> None:
        ways = [
            asyncio.create_task(self._carry(self._outer[0], self._inner[1], to_server=True)),
            asyncio.create_task(self._carry(self._inner[0], self._outer[1], to_server=False)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for _, writer in (self._outer, self._inner):
                writer.close()

    def reset(self) -> None:
        for _, writer in (self._outer, self._inner):
            with contextlib.suppress(OSError):
                raw: socket.socket = writer.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, to_server: bool
    ) -> None:
        proxy = self._proxy
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if proxy.delay:
                    await asyncio.sleep(proxy.delay * random.random())
                while proxy.swallow:
                    await asyncio.sleep(0.02)
                if not to_server and proxy.answers_to_lose and proxy.lost_mark in data:
                    proxy.answers_to_lose -= 1
                    self.reset()
                    return
                writer.write(data)
                await writer.drain()
                cut = to_server and COMMIT in data.lower() and random.random() < proxy.cut_commits
                if cut:
                    proxy.commits_cut += 1
                    await asyncio.sleep(0.005)  # the server has it, the client hears nothing
                    self.reset()
                    return
