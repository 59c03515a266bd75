"""Serves the dashboard by itself, on uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import signal
import socket
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import TypedDict, Unpack

import uvicorn
from starlette.applications import Starlette

from headway.app import Headway
from headway.errors import ConfigurationError
from headway.web.dashboard import end_streams, make_dashboard
from headway.web.security.access import LOOPBACK
from headway.web.security.auth import Auth, Open
from headway.web.security.connections import Connection

DEFAULT_PORT = 8420


class ServerOptions(TypedDict, total=False):
    """How a dashboard is served: the options of `serve` and `dashboard_server`."""

    host: str
    """127.0.0.1 unless given."""
    port: int
    """8420 unless given; 0 takes a free one."""
    allow_writes: bool
    redact: Sequence[str]
    base_path: str
    hosts: Sequence[str]
    """More host names that browsers may use."""


async def serve(app: Headway, *, auth: Auth, **options: Unpack[ServerOptions]) -> None:
    """Serve until SIGINT or SIGTERM; a second signal stops at once. Opens and closes the app.
    The other options are those of `create_dashboard`."""
    async with _running_server(app, auth, options) as (_, server, served):
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, server.stop)
        try:
            await served
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def dashboard_server(
    app: Headway, *, auth: Auth, **options: Unpack[ServerOptions]
) -> AsyncGenerator[str]:
    """Serve while the block runs; gives the URL. The caller handles signals."""
    async with _running_server(app, auth, options) as (url, _, _):
        yield url


@contextlib.asynccontextmanager
async def _running_server(
    app: Headway, auth: Auth, options: ServerOptions
) -> AsyncGenerator[tuple[str, _Server, asyncio.Task[None]]]:
    host, base_path = options.get("host", "127.0.0.1"), options.get("base_path", "")
    check_address(host, auth)
    dashboard = make_dashboard(
        app,
        auth=auth,
        allow_writes=options.get("allow_writes", False),
        redact=options.get("redact", ()),
        base_path=base_path,
        hosts=(*LOOPBACK, host, *options.get("hosts", ())),
    )
    with _bound(host, options.get("port", DEFAULT_PORT)) as bound:
        async with app:
            server = _Server(dashboard)
            served = asyncio.create_task(server.serve(sockets=[bound]))
            try:
                name = f"[{host}]" if ":" in host else host
                yield f"http://{name}:{bound.getsockname()[1]}{base_path}", server, served
            finally:
                server.should_exit = True
                await served


def check_address(host: str, auth: Auth) -> None:
    """Without a login the dashboard may be served on loopback only."""
    if isinstance(auth, Open) and not is_loopback(host):
        raise ConfigurationError(
            f"{host} can be reached from other machines, so it needs authentication: a token, "
            "or a user and a password"
        )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP: asyncio then sends at once instead of waiting 40 ms for more to send.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(256)
    except OSError as error:
        bound.close()
        raise ConfigurationError(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another port"
        ) from error
    return bound


class _Server(uvicorn.Server):
    """Does not handle signals, and ends live updates before it shuts down."""

    def __init__(self, dashboard: Starlette) -> None:
        super().__init__(
            uvicorn.Config(
                dashboard,
                http=Connection,
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                ws="none",
                timeout_graceful_shutdown=5,
            )
        )
        self._dashboard = dashboard

    def stop(self) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        end_streams(self._dashboard)
        await super().shutdown(sockets)
