"""A worker's own HTTP server, and clients that are slow on purpose."""

from __future__ import annotations

import contextlib
import socket
import threading
import urllib.request
from collections.abc import Iterator

import pytest

from headway.domain.views import Health
from headway.observers import worker_endpoint
from headway.observers.worker_endpoint import WorkerEndpoint


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    served = WorkerEndpoint("127.0.0.1", 0, lambda: Health(live=True, ready=True))
    served.start()
    yield "127.0.0.1", served.port
    served.stop()


def hung_up(client: socket.socket) -> bytes:
    """What came before the server closed the connection."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := client.recv(65_536):
            received += data
    return received


def is_live(address: tuple[str, int]) -> bool:
    url = f"http://{address[0]}:{address[1]}/livez"
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=30) as answer:
        return answer.status == 200
    return False


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\n", b"GET /livez HTTP/1.1\r\nA: "])
def test_who_never_ends_a_request_is_hung_up_on(
    address: tuple[str, int],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    sent: bytes,
) -> None:
    monkeypatch.setattr(worker_endpoint, "REQUEST_TIMEOUT", 0.5)
    ended = threading.Event()
    with socket.create_connection(address, timeout=60) as client:
        client.sendall(sent)

        def drip() -> None:
            with contextlib.suppress(OSError):
                while not ended.wait(0.05):
                    client.sendall(b"x")

        dripping = threading.Thread(target=drip)
        if sent.endswith(b": "):
            dripping.start()
        assert hung_up(client) == b""
        ended.set()
        if dripping.ident is not None:
            dripping.join()
    assert is_live(address)
    assert "Traceback" not in capfd.readouterr().err


def test_connections_are_bounded(address: tuple[str, int]) -> None:
    with contextlib.ExitStack() as held:
        for _ in range(worker_endpoint.MAX_CONNECTIONS):
            held.enter_context(socket.create_connection(address, timeout=60))
        with socket.create_connection(address, timeout=60) as client:
            assert hung_up(client) == b""
    while not is_live(address):  # those who left make room
        pass
