"""Limits for the connections of the dashboard's own server: their number, and time."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 256
HEADERS_WITHIN = 10.0
"""Seconds for the head of a request."""
BODY_WITHIN = 60.0
"""Seconds for its body."""
READ_WITHIN = 60.0
"""Seconds until a client that does not read its answer is disconnected."""


class Connection(H11Protocol):
    """Disconnects clients that send or read too slowly, and those beyond the limit, so that slow
    clients cannot exhaust the server."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._asking: asyncio.TimerHandle | None = None
        self._awaited: Any = None
        """The part of a request that `_asking` gives time for, as a state of the client."""
        self._reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        if len(self.connections) > MAX_CONNECTIONS:
            self.transport.abort()
        else:
            self._give_time()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._give_time()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading = self.loop.call_later(READ_WITHIN, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._reading)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        _cancel(self._asking)
        _cancel(self._reading)

    def _give_time(self) -> None:
        """Each part of a request has its time once, in however many pieces it arrives."""
        awaited = self.conn.their_state
        if awaited is self._awaited and self._asking is not None:
            return
        _cancel(self._asking)
        self._asking, self._awaited = None, awaited
        if self.transport.is_closing():
            return
        if awaited is h11.IDLE:
            self._asking = self.loop.call_later(HEADERS_WITHIN, self.transport.abort)
        elif awaited is h11.SEND_BODY:
            self._asking = self.loop.call_later(BODY_WITHIN, self.transport.abort)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
