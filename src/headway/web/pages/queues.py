"""Queues and job types."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headway.domain.validation import check_name
from headway.ports.admin import Actions, Questions
from headway.web.context import context_of
from headway.web.html import own_path, page, read_own_form, redirect


async def list_queues(request: Request) -> Response:
    queues = await context_of(request).ask(Questions.queues)
    return page(request, "queues.html", queues=queues)


async def list_types(request: Request) -> Response:
    types = await context_of(request).ask(Questions.types)
    return page(request, "types.html", types=types)


async def pause(request: Request) -> Response:
    form = await read_own_form(request)
    queue = check_name("queue", form.one("queue"))
    await context_of(request).act(request, Actions.pause, queue)
    return redirect(request, own_path(form.one("back")))


async def resume(request: Request) -> Response:
    form = await read_own_form(request)
    queue = check_name("queue", form.one("queue"))
    await context_of(request).act(request, Actions.resume, queue)
    return redirect(request, own_path(form.one("back")))


ROUTES = [
    Route("/queues", list_queues),
    Route("/queues/pause", pause, methods=["POST"]),
    Route("/queues/resume", resume, methods=["POST"]),
    Route("/types", list_types),
]
