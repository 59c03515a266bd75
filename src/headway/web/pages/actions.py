"""Actions on the selected jobs, or on all jobs that match a filter."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headway.domain.filters import parse_filter
from headway.domain.views import JobAction
from headway.ports.admin import Actions, Questions
from headway.web.context import context_of
from headway.web.html import own_path, page, read_own_form, redirect
from headway.web.problems import Refused
from headway.web.request_body import Form
from headway.web.search import Search

COUNTED = 20_000
ACT_FOR = 2.0
"""Seconds of a bulk action in one request; the page then asks for the rest."""


async def act_on_selected(request: Request) -> Response:
    form = await read_own_form(request)
    action = _action(form.one("action"))
    ids = form.all("id")
    back = own_path(form.one("back"))
    if not ids:
        raise Refused(400, "nothing_selected", "No job was selected.")
    batch = await context_of(request).act(request, Actions.act, action, ids, exactly=True)
    if action is JobAction.DELETE and back.startswith("/jobs/"):
        back = "/jobs"  # the page it came from is about what is gone
    return redirect(
        request, back, did=action.value, changed=batch.changed, passed=batch.passed_over
    )


async def confirm_all(request: Request) -> Response:
    """Asks before the action, with the number of jobs."""
    search = Search.of(request)
    action = _action(request.query_params.get("action", ""))
    count = None
    if search.which is not None:
        count = await context_of(request).ask(Questions.count, search.which, at_most=COUNTED)
    return page(
        request, "act_on_all.html", search=search, action=action, count=count, at_most=COUNTED
    )


async def act_on_all(request: Request) -> Response:
    """One part of the action. The page carries the cursor and the sums so far."""
    form = await read_own_form(request)
    action, text = _action(form.one("action")), form.one("q")
    context = context_of(request)
    which = parse_filter(text)
    cursor = form.one("cursor") or None
    changed, passed = _sum(form, "changed"), _sum(form, "passed")
    loop = asyncio.get_running_loop()
    ends = loop.time() + ACT_FOR
    while True:
        batch = await context.act(request, Actions.act_on_all, action, which, cursor=cursor)
        changed += batch.changed
        passed += batch.passed_over
        cursor = batch.cursor
        if cursor is None:
            return redirect(
                request, "/jobs", q=text, did=action.value, changed=changed, passed=passed
            )
        if loop.time() >= ends:
            return page(
                request,
                "act_on_all_more.html",
                action=action,
                text=text,
                cursor=cursor,
                changed=changed,
                passed=passed,
            )


def _action(text: str) -> JobAction:
    try:
        return JobAction(text)
    except ValueError:
        raise Refused(400, "invalid_action", "There is no such action.") from None


def _sum(form: Form, name: str) -> int:
    text = form.one(name) or "0"
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise Refused(400, "bad_form", "The form could not be read.")
    return int(text)


ROUTES = [
    Route("/jobs/act", act_on_selected, methods=["POST"]),
    Route("/jobs/all", confirm_all),
    Route("/jobs/all", act_on_all, methods=["POST"]),
]
