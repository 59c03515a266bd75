"""Failed jobs, grouped by error."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headway.domain.views import FailureGroup
from headway.ports.admin import Questions
from headway.web.context import context_of
from headway.web.html import page
from headway.web.pages.jobs import done
from headway.web.search import Search


async def list_failures(request: Request) -> Response:
    search = Search.of(request)
    groups: list[FailureGroup] = []
    if search.which is not None:
        groups = await context_of(request).ask(Questions.failures, search.which)
    return page(request, "failures.html", search=search, groups=groups, done=done(request))


ROUTES = [Route("/failures", list_failures)]
