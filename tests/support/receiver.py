"""A real HTTP server that keeps the requests it gets, and answers as it is told."""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

import brotli

PATIENCE = 60.0


class Received(NamedTuple):
    path: str
    headers: Message
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """`answers` holds the status of each answer; when they are used up, 200. Clear `answering` to
    let clients wait for their answers."""

    def __init__(self, *answers: int, port: int = 0, seconds: float = 0.0) -> None:
        self.received: list[Received] = []
        self.answering = threading.Event()
        self.answering.set()
        self._answers = list(answers)
        self._seconds = seconds
        self._changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver._take(self)

            def do_GET(self) -> None:
                receiver._take(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def port(self) -> int:
        return self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks/its-secret"

    def until(self, done: Callable[[list[Received]], object]) -> None:
        """Wait until the requests are as they should be."""
        deadline = time.monotonic() + PATIENCE
        with self._changed:
            while not done(self.received):
                left = deadline - time.monotonic()
                assert left > 0, [each.body[:500] for each in self.received]
                self._changed.wait(left)

    def _take(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        match handler.headers.get("Content-Encoding"):
            case "gzip":
                body = gzip.decompress(body)
            case "br":
                body = brotli.decompress(body)
        with self._changed:
            status = self._answers.pop(0) if self._answers else 200
            self.received.append(Received(handler.path, handler.headers, body))
            self._changed.notify_all()
        self.answering.wait(PATIENCE)
        time.sleep(self._seconds)
        try:
            handler.send_response(status)
            if 300 <= status < 400:
                handler.send_header("Location", "/elsewhere")
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        except OSError:
            pass  # nobody waits any more

    def close(self) -> None:
        self.answering.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
