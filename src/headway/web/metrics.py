"""`/metrics`: the jobs in the store, for Prometheus, if its client is installed. Workers serve
their own metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headway.ports.store import Store
from headway.web.problems import Refused

MakePage = Callable[[], tuple[str, bytes]]
"""Gives the type and the content."""


def metrics_route(store: Store) -> Route:
    make_page = _page_maker(store)

    async def show(_: Request) -> Response:
        if make_page is None:
            raise Refused(
                404,
                "no_metrics",
                "Metrics need a client library: pip install 'headway[prometheus]'.",
            )
        kind, content = await asyncio.to_thread(make_page)
        return Response(content, headers={"content-type": kind})

    return Route("/metrics", show)


def _page_maker(store: Store) -> MakePage | None:
    try:
        from headway.observers.prometheus import (  # noqa: PLC0415 - an extra
            QueueCollector,
            exposition,
        )
    except ModuleNotFoundError:
        return None
    return exposition(QueueCollector(store))
