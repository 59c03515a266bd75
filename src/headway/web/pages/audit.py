"""Actions of operators."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headway.ports.admin import Questions
from headway.web.context import context_of
from headway.web.html import page


async def list_audit(request: Request) -> Response:
    cursor = request.query_params.get("cursor") or None
    found = await context_of(request).ask(Questions.audit, cursor=cursor)
    return page(request, "audit.html", page=found, cursor=cursor)


ROUTES = [Route("/audit", list_audit)]
