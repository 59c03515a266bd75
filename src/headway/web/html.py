"""Pages from templates, forms, redirects."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

import jinja2
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from headway.domain.lifecycle import ALLOWED, shown_state
from headway.domain.text import DONE, ago, found, moment, number, short_id, shortened, span
from headway.domain.views import ShownState
from headway.web import template_filters
from headway.web.assets import asset_path
from headway.web.context import context_of
from headway.web.problems import Refused, problem_of
from headway.web.request_body import Form, read_form
from headway.web.search import Search, find
from headway.web.security.auth import Password, Token
from headway.web.security.sessions import form_token, form_token_fits

_environment = jinja2.Environment(
    loader=jinja2.PackageLoader("headway.web"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    finalize=template_filters.printed,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters.update(  # pyright: ignore[reportUnknownMemberType] - open in jinja2
    {
        filter.__name__: filter
        for filter in (
            ago,
            template_filters.countdown,
            found,
            template_filters.in_zone,
            template_filters.iso,
            moment,
            number,
            template_filters.pretty,
            template_filters.rate,
            short_id,
            shortened,
            shown_state,
            span,
        )
    }
)
_environment.globals.update(  # pyright: ignore[reportUnknownMemberType] - open in jinja2
    {"STATES": tuple(ShownState), "ACTIONS": tuple(ALLOWED), "DONE": DONE, "find": find}
)

SECTIONS = (
    ("overview", "Overview", "/"),
    ("jobs", "Jobs", "/jobs"),
    ("sequences", "Sequences", "/sequences"),
    ("schedules", "Schedules", "/schedules"),
    ("failures", "Failures", "/failures"),
    ("queues", "Queues", "/queues"),
    ("types", "Types", "/types"),
    ("workers", "Workers", "/workers"),
    ("audit", "Audit", "/audit"),
)

_OWN_PATH = re.compile(r"/(?![/\\])[!-~]*")


def render(request: Request, template: str, **values: Any) -> str:
    base: str = request.scope["headway.base"]

    def url(path: str, **query: object) -> str:
        given = {key: value for key, value in query.items() if value not in (None, "")}
        return base + quote(path) + (f"?{urlencode(given)}" if given else "")

    def schedule_url(name: str) -> str:
        return base + schedule_path(name)

    def queue_url(name: str) -> str:
        return base + queue_path(name)

    def asset(name: str) -> str:
        return base + asset_path(name)

    context = context_of(request)
    return _environment.get_template(template).render(
        url=url,
        schedule_url=schedule_url,
        queue_url=queue_url,
        asset=asset,
        actor=request.scope["headway.actor"],
        logs_in=isinstance(context.authenticator.auth, (Token, Password)),
        allow_writes=context.allow_writes,
        form_token=form_token(request.scope["headway.visit"]),
        store=re.sub(r"\S*/(?=[^/\s]+$)", "…/", context.app.store.name),
        sections=SECTIONS,
        section=request.scope["headway.path"].strip("/").partition("/")[0] or "overview",
        now=datetime.now(UTC),
        **values,
    )


def page(
    request: Request,
    template: str,
    *,
    status: int = 200,
    search: Search | None = None,
    **values: Any,
) -> HTMLResponse:
    """With a search, its status counts."""
    status = status if search is None else search.status
    return HTMLResponse(render(request, template, search=search, **values), status)


def redirect(request: Request, path: str, **query: object) -> RedirectResponse:
    """To a page of the dashboard, by its path within it."""
    given = {key: value for key, value in query.items() if value not in (None, "")}
    joint = "&" if "?" in path else "?"
    target = request.scope["headway.base"] + path + (f"{joint}{urlencode(given)}" if given else "")
    return RedirectResponse(target, 303)


def path_here(request: Request) -> str:
    """The path of this page within the dashboard, without the result of an action."""
    query = [
        (key, value)
        for key, value in request.query_params.multi_items()
        if key not in ("did", "changed", "passed", "started")
    ]
    path: str = request.scope["headway.path"]
    return path + (f"?{urlencode(query)}" if query else "")


def schedule_path(name: str) -> str:
    """The path of a schedule's page."""
    return _path_of("schedules", name)


def queue_path(name: str) -> str:
    """The path of a queue's page."""
    return _path_of("queues", name)


def _path_of(section: str, name: str) -> str:
    """Browsers shorten `a/../b` to `b`, but leave `a%2F..%2Fb` as it is."""
    dotted = not {"", ".", ".."}.isdisjoint(name.split("/"))
    return f"/{section}/{quote(name, safe='' if dotted else '/')}"


def own_path(path: str) -> str:
    """The path, if it is one within the dashboard; else the first page."""
    return path if _OWN_PATH.fullmatch(path) else "/"


async def read_own_form(request: Request) -> Form:
    """A form from a page of the dashboard, opened in this browser."""
    form = await read_form(request)
    if not form_token_fits(request.scope["headway.visit"], form.one("form_token")):
        raise Refused(403, "stale_form", "This form is out of date; load the page again.")
    return form


def answer_problem(request: Request, error: Exception) -> Response:
    """JSON for programs, a page for people."""
    status, problem = problem_of(error)
    headers = {"www-authenticate": "Bearer"} if status == 401 else {}
    if isinstance(error, HTTPException) and error.headers is not None:
        headers |= error.headers
    if isinstance(error, Refused) and error.retry_after is not None:
        headers["retry-after"] = str(error.retry_after)
    if request.scope["headway.path"].startswith("/api/"):
        content = {"error": {"code": problem.code, "message": problem.message}}
        return JSONResponse(content, status, headers)
    answer = page(request, "problem.html", status=status, problem=problem)
    answer.headers.update(headers)
    return answer
