"""Queues and job types: what is in them, and whether they move."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headway.domain.names import check_name
from headway.web.context import desk_of
from headway.web.templating import page, read_own_form, redirect


async def list_queues(request: Request) -> Response:
    queues = await desk_of(request).questions.queues()
    return page(request, "queues.html", section="queues", queues=queues)


async def list_types(request: Request) -> Response:
    types = await desk_of(request).questions.types()
    return page(request, "types.html", section="types", types=types)


async def pause(request: Request) -> Response:
    queue = check_name("queue", (await read_own_form(request)).one("queue"))
    await desk_of(request).actions(request).pause(queue)
    return redirect(request, "/queues")


async def resume(request: Request) -> Response:
    queue = check_name("queue", (await read_own_form(request)).one("queue"))
    await desk_of(request).actions(request).resume(queue)
    return redirect(request, "/queues")


ROUTES = [
    Route("/queues", list_queues),
    Route("/queues/pause", pause, methods=["POST"]),
    Route("/queues/resume", resume, methods=["POST"]),
    Route("/types", list_types),
]
