"""Workers, living or not."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headway.ports.admin import Questions
from headway.web.context import context_of
from headway.web.html import page


async def list_workers(request: Request) -> Response:
    workers = await context_of(request).ask(Questions.workers)
    return page(request, "workers.html", workers=workers)


ROUTES = [Route("/workers", list_workers)]
