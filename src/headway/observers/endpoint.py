"""A worker's own small HTTP server: `/metrics` for Prometheus, `/livez` and `/readyz` for whoever
starts processes anew. It lives in threads, so that it answers while a handler blocks the loop."""

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

from headway.domain.health import Health
from headway.runtime.forks import Forkable

MAX_CONNECTIONS = 32
ASKED_WITHIN = 10.0
"""Seconds that a client has for its request; and again as many to read the answer."""
TEXT = "text/plain; charset=utf-8"
Answer = tuple[HTTPStatus, str, bytes]
"""Status, type of content, content."""


class Endpoint(Forkable):
    """Serves from `start` to `stop`; stopping twice, or before starting, is fine.

    `page` gives the type and the content of `/metrics`; None: there is none.
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
        """The one it listens on, also if 0 was asked for."""
        return self._address[1] if self._server is None else self._server.server_address[1]

    def start(self) -> None:
        """Raises OSError if the address cannot be had."""
        server = _Server(self._address, partial(_Handler, self.answer))
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
                return _verdict(health.live, health)
            case "/readyz":
                health = self._health()
                return _verdict(health.ready, health)
            case "/metrics" if self._page is not None:
                kind, content = self._page()
                return HTTPStatus.OK, kind, content
            case _:
                return HTTPStatus.NOT_FOUND, TEXT, b"/livez, /readyz and /metrics are here\n"


def _verdict(well: bool, health: Health) -> Answer:
    if well:
        return HTTPStatus.OK, TEXT, b"ok\n"
    text = "".join(f"{problem}\n" for problem in health.problems)
    return HTTPStatus.SERVICE_UNAVAILABLE, TEXT, text.encode()


class _Server(ThreadingHTTPServer):
    """Hangs up on clients that take too long to ask, and on those beyond the bound: each costs a
    thread of the worker's process."""

    daemon_threads = True
    request_queue_size = MAX_CONNECTIONS
    block_on_close = False  # whoever is still being served need not hold up the worker's end

    def __init__(self, *args: Any) -> None:
        self._places = threading.Semaphore(MAX_CONNECTIONS)
        self._asking: dict[socket.socket, float] = {}
        """Clients whose request has not arrived, and until when they are waited for."""
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._asking[request] = time.monotonic() + ASKED_WITHIN
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
        self._places.release()

    def asked(self, request: socket.socket) -> None:
        """The request has arrived."""
        self._asking.pop(request, None)

    def service_actions(self) -> None:
        """Called a few times in a second."""
        now = time.monotonic()
        for request, until in list(self._asking.items()):
            if until < now:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up, or was hung up on, is worth no traceback."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    timeout = ASKED_WITHIN

    def __init__(self, answer: Callable[[str], Answer], *args: Any) -> None:
        self._answer = answer
        super().__init__(*args)

    def do_GET(self) -> None:
        self._reply(with_content=True)

    def do_HEAD(self) -> None:
        self._reply(with_content=False)

    def _reply(self, *, with_content: bool) -> None:
        cast("_Server", self.server).asked(self.connection)
        status, kind, content = self._answer(self.path)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_content:
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody wants a line for every scrape."""
