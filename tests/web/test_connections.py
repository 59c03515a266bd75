"""Clients that are slow on purpose, on real sockets: the server hangs up, and goes on."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from headway.web import Open, dashboard_server
from headway.web.security import connections
from headway.web.security.access import AccessMiddleware
from tests.web.shop import Shop

pytestmark = pytest.mark.parametrize("store_url", ["memory"], indirect=True)

HEAD = b"GET /api/v1/queues HTTP/1.1\r\nHost: localhost\r\n"
BODY = (
    b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
    b"Content-Type: application/json\r\n"
)


@pytest.fixture
async def place(shop: Shop) -> AsyncIterator[tuple[str, int]]:
    async with dashboard_server(shop.app, auth=Open(), port=0, allow_writes=True) as address:
        parts = urlsplit(address)
        assert parts.hostname is not None
        assert parts.port is not None
        yield parts.hostname, parts.port


async def hung_up(reader: asyncio.StreamReader) -> bytes:
    """What came before the server closed the connection."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65_536):
            received += data
    return received


async def leave(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def drip(writer: asyncio.StreamWriter) -> None:
    """A byte now and then, as long as somebody takes it."""
    with contextlib.suppress(ConnectionError):
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("sent", [b"", b"G", HEAD + b"X-Slow: ", BODY + b"\r\n"])
async def test_who_never_ends_a_request_is_hung_up_on(
    place: tuple[str, int], monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(connections, "HEADERS_WITHIN", 0.5)
    monkeypatch.setattr(connections, "BODY_WITHIN", 0.5)
    reader, writer = await asyncio.open_connection(*place)
    writer.write(sent)
    dripping = asyncio.create_task(drip(writer)) if b"X-Slow" in sent else None
    async with asyncio.timeout(60):
        assert await hung_up(reader) == b""
    if dripping is not None:
        dripping.cancel()
    await leave(writer)


async def test_a_second_request_has_its_time_too(
    place: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADERS_WITHIN", 1.0)
    reader, writer = await asyncio.open_connection(*place)
    writer.write(HEAD + b"\r\n")
    assert await reader.readuntil(b"\r\n\r\n")
    writer.write(HEAD)
    async with asyncio.timeout(60):
        assert b"HTTP/1.1" not in await hung_up(reader)
    await leave(writer)


async def test_a_slow_answer_is_no_slow_client(
    place: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADERS_WITHIN", 0.3)
    async with (
        httpx.AsyncClient(base_url=f"http://{place[0]}:{place[1]}", timeout=60) as client,
        client.stream("GET", "/live") as stream,
    ):
        events = [line async for line in _some(stream.aiter_lines(), 3)]
    assert len(events) == 3


async def _some(lines: AsyncIterator[str], count: int) -> AsyncIterator[str]:
    async for line in lines:
        if line.startswith("event"):
            count -= 1
            yield line
        if not count:
            return


async def test_who_never_reads_the_answer_is_hung_up_on(
    shop: Shop, place: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "READ_WITHIN", 0.5)
    await shop.app.start_many([shop.greet.request("x" * 60_000) for _ in range(500)])
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    deaf.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(deaf, place)
    await loop.sock_sendall(
        deaf, b"GET /api/v1/jobs?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    async with asyncio.timeout(60):
        with contextlib.suppress(ConnectionError):
            # Nothing is read. When the server has hung up, sending fails.
            while True:
                await loop.sock_sendall(deaf, b"x")
                await asyncio.sleep(0.05)
    deaf.close()


async def test_connections_are_bounded(
    place: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    held = [await asyncio.open_connection(*place) for _ in range(3)]
    reader, writer = await asyncio.open_connection(*place)
    async with asyncio.timeout(60):
        assert await hung_up(reader) == b""
    await leave(writer)
    for _, each in held:
        await leave(each)
    async with asyncio.timeout(60), httpx.AsyncClient() as client:
        while True:
            with contextlib.suppress(httpx.TransportError):
                answer = await client.get(f"http://{place[0]}:{place[1]}/api/v1/queues")
                break
            await asyncio.sleep(0.02)
    assert answer.status_code == 200


async def test_who_hangs_up_in_the_middle_of_a_body_leaves_no_line_in_the_log(
    place: tuple[str, int], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = asyncio.Event()
    answer = AccessMiddleware.__call__

    async def heard(self: AccessMiddleware, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await answer(self, scope, receive, send)
        finally:
            ended.set()

    monkeypatch.setattr(AccessMiddleware, "__call__", heard)
    _, writer = await asyncio.open_connection(*place)
    writer.write(BODY + b"\r\n{")
    await writer.drain()
    await leave(writer)
    async with asyncio.timeout(30):
        await ended.wait()
    assert [record for record in caplog.records if record.name == "headway.web"] == []
