"""A worker's HTTP endpoint: `/metrics` for Prometheus, `/livez` and `/readyz` for supervisors. It
runs in threads, so that it answers while a handler blocks the event loop."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from headway.domain.views import Health
from headway.runtime.forks import Forkable

MAX_CONNECTIONS = 32
REQUEST_TIMEOUT = 10.0
"""Seconds for a client to send its request, and again to read the answer."""
TEXT = "text/plain; charset=utf-8"
Answer = tuple[HTTPStatus, str, bytes]
"""Status, content type, content."""


class WorkerEndpoint(Forkable):
    """Serves from `start` to `stop`, which may be called twice, or without `start`.

    `page` returns content type and content of `/metrics`; None: no such page.
    """

    def __init__(
        self,
        host: str,
        port: int,
        health: Callable[[], Health],
        page: Callable[[], tuple[str, bytes]] | None = None,
    ) -> None:
        self._address = host, port
        self._health = health
        self._page = page
        self.in_child()
        self.watch_forks()

    def in_child(self) -> None:
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port in use, also if 0 was given."""
        return self._address[1] if self._server is None else self._server.server_address[1]

    def start(self) -> None:
        """Raises OSError if the address is not available."""
        server = _EndpointServer(self._address, partial(_Handler, self.answer))
        self._server = server
        self._thread = threading.Thread(
            target=server.serve_forever, args=(0.2,), name="headway-http", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        server, thread = self._server, self._thread
        self._server = self._thread = None
        if server is not None:
            server.shutdown()
            server.server_close()
        if thread is not None:
            thread.join()

    def answer(self, path: str) -> Answer:
        match path.partition("?")[0]:
            case "/livez":
                health = self._health()
                return _health_answer(health.live, health)
            case "/readyz":
                health = self._health()
                return _health_answer(health.ready, health)
            case "/metrics" if self._page is not None:
                kind, content = self._page()
                return HTTPStatus.OK, kind, content
            case _:
                return HTTPStatus.NOT_FOUND, TEXT, b"/livez, /readyz and /metrics are here\n"


def _health_answer(well: bool, health: Health) -> Answer:
    if well:
        return HTTPStatus.OK, TEXT, b"ok\n"
    text = "".join(f"{problem}\n" for problem in health.problems)
    return HTTPStatus.SERVICE_UNAVAILABLE, TEXT, text.encode()


class _EndpointServer(ThreadingHTTPServer):
    """Each client takes a thread, so slow clients and those beyond the limit are disconnected."""

    daemon_threads = True
    request_queue_size = MAX_CONNECTIONS
    block_on_close = False  # open requests do not delay the end of the worker

    def __init__(self, *args: Any) -> None:
        self._free_connections = threading.Semaphore(MAX_CONNECTIONS)
        self._asking: dict[socket.socket, float] = {}
        """Clients whose request has not arrived, with their deadlines."""
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free_connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._asking[request] = time.monotonic() + REQUEST_TIMEOUT
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._leave(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._leave(request)

    def _leave(self, request: socket.socket) -> None:
        self.asked(request)
        self._free_connections.release()

    def asked(self, request: socket.socket) -> None:
        """The request has arrived."""
        self._asking.pop(request, None)

    def service_actions(self) -> None:
        """Called a few times per second."""
        now = time.monotonic()
        for request, until in list(self._asking.items()):
            if until < now:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads

    def handle_error(self, request: Any, client_address: Any) -> None:
        """No traceback for a client that disconnects, or was disconnected."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    timeout = REQUEST_TIMEOUT

    def __init__(self, answer: Callable[[str], Answer], *args: Any) -> None:
        self._answer = answer
        super().__init__(*args)

    def do_GET(self) -> None:
        self._reply(with_content=True)

    def do_HEAD(self) -> None:
        self._reply(with_content=False)

    def _reply(self, *, with_content: bool) -> None:
        cast("_EndpointServer", self.server).asked(self.connection)
        status, kind, content = self._answer(self.path)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_content:
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """No log line for each scrape."""
