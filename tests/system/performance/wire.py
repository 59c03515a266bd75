"""A proxy before PostgreSQL that counts round trips and transactions, whatever the driver."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Self

ENDS_REQUEST = (b"Q", b"S")
"""A simple query, and the Sync after an extended one: the client then waits for an answer."""
READY_OUTSIDE = b"Z\0\0\0\5I"
"""The server is ready for the next request, and no transaction is open: one has just ended."""


class CountingProxy:
    """Listens on 127.0.0.1 while it is open. Without TLS: connect with sslmode=disable."""

    def __init__(self, port: int) -> None:
        self.round_trips = 0
        self.transactions = 0
        self._server_port = port
        self._tasks: set[asyncio.Task[None]] = set()
        self._ends: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for end in self._ends:
            end.transport.abort()
        await asyncio.gather(*self._tasks)
        await self._server.wait_closed()

    async def _serve(self, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        server, requests = await asyncio.open_connection("127.0.0.1", self._server_port)
        ends = {answers, requests}
        self._ends |= ends
        back = asyncio.create_task(self._pass_back(server, answers))
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            size = await client.readexactly(4)  # the first message has no type
            requests.write(size + await client.readexactly(int.from_bytes(size) - 4))
            while True:
                type_, message = await _next(client)
                requests.write(message)
                self.round_trips += type_ in ENDS_REQUEST
        for end in ends:
            end.close()
        await back
        self._ends -= ends
        self._tasks.discard(task)

    async def _pass_back(self, server: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                _, message = await _next(server)
                answers.write(message)
                self.transactions += message == READY_OUTSIDE


async def _next(stream: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """A message's type, and all of it."""
    head = await stream.readexactly(5)
    return head[:1], head + await stream.readexactly(int.from_bytes(head[1:]) - 4)
