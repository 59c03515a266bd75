"""The dashboard as an ASGI app, put together."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from headway.admin.endpoints import PREFIX
from headway.app import Headway
from headway.errors import ConfigurationError
from headway.web.api import routes
from headway.web.assets import serve_asset
from headway.web.context import Context
from headway.web.event_stream import Broadcast
from headway.web.html import answer_problem
from headway.web.metrics import metrics_route
from headway.web.openapi import openapi_document
from headway.web.pages import (
    actions,
    audit,
    failures,
    jobs,
    login,
    overview,
    queue_limits,
    queues,
    schedules,
    sequences,
    workers,
)
from headway.web.security.access import LOOPBACK, AccessMiddleware, Authenticator, checked_hosts
from headway.web.security.auth import Auth, Open, session_key
from headway.web.security.redaction import Redaction
from headway.web.security.sessions import Sessions

REFRESH = 1.0
"""Seconds between live updates."""


def create_dashboard(
    app: Headway,
    *,
    auth: Auth,
    allow_writes: bool = False,
    redact: Sequence[str] = (),
    base_path: str = "",
    hosts: Sequence[str] = LOOPBACK,
) -> Starlette:
    """The pages and the API as an ASGI app, to serve or mount:
    `api.mount("/jobs", create_dashboard(…))`.

    Served by itself the dashboard opens and closes the app; mounted, your server does. `redact`
    names payload fields to hide, besides those that sound like secrets. `base_path` is the prefix
    that a proxy removes from paths. `hosts` are the host names that browsers may use ("*": any, if
    your server checks them). `Open()` is refused: the dashboard cannot know who reaches your
    server.
    """
    if isinstance(auth, Open):
        raise ConfigurationError(
            "Open() gives access to everyone who can reach the server, so only serve() accepts it, "
            "on loopback; use Token or Password, or Trust to let your own app decide"
        )
    return make_dashboard(
        app,
        auth=auth,
        allow_writes=allow_writes,
        redact=redact,
        base_path=base_path,
        hosts=hosts,
    )


def make_dashboard(
    app: Headway,
    *,
    auth: Auth,
    allow_writes: bool,
    redact: Sequence[str],
    base_path: str,
    hosts: Sequence[str],
) -> Starlette:
    """The same without refusing `Open()`, for a server that knows who can reach it."""
    if base_path and (not base_path.startswith("/") or base_path.endswith("/")):
        raise ConfigurationError(f"a base path is like /jobs, not {base_path!r}")
    checked_hosts(hosts)
    context = Context(
        app=app,
        redaction=Redaction(redact),
        authenticator=Authenticator(auth, Sessions(session_key(auth))),
        allow_writes=allow_writes,
        live=Broadcast(app.questions.overview, every=REFRESH),
    )

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with app:
            yield
            context.live.end()

    pages = (
        overview,
        actions,
        jobs,
        sequences,
        schedules,
        failures,
        queues,
        queue_limits,
        workers,
        audit,
        login,
    )
    dashboard = Starlette(
        routes=[
            *(route for module in pages for route in module.ROUTES),
            Route("/static/{name:path}", serve_asset),
            metrics_route(app.store),
            Mount(
                PREFIX,
                routes=[
                    Route("/openapi.json", _serve_document),
                    *routes(),
                ],
            ),
        ],
        middleware=[
            Middleware(
                AccessMiddleware,
                authenticator=context.authenticator,
                allow_writes=allow_writes,
                hosts=hosts,
                base_path=base_path,
                answer_problem=answer_problem,
            )
        ],
        exception_handlers={HTTPException: _answer_refusal},
        lifespan=lifespan,
    )
    dashboard.state.context = context
    return dashboard


def end_streams(dashboard: Starlette) -> None:
    """End all live updates; a server does so before it shuts down."""
    cast("Context", dashboard.state.context).live.end()


async def _serve_document(_: Request) -> Response:
    return Response(openapi_document(), media_type="application/json")


async def _answer_refusal(request: Request, error: Exception) -> Response:
    return answer_problem(request, error)
