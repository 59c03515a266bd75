"""Schedules: the list with its search, one schedule, and what operators do with it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headway.domain.schedules.schedule_views import ScheduleOrigin, ScheduleState
from headway.domain.validation import check_name, is_id
from headway.errors import InvalidOption, InvalidRequest
from headway.ports.admin import Actions, Questions
from headway.web.context import context_of
from headway.web.html import own_path, page, path_here, read_own_form, redirect, schedule_path
from headway.web.problems import Refused
from headway.web.request_body import Form

PAGE = 50
STRIP = 20
"""Ticks of each schedule in the list."""


async def list_schedules(request: Request) -> Response:
    query = request.query_params
    text, cursor = query.get("q", "").strip(), query.get("cursor") or None
    state = _state(query.get("state", ""))
    found = await context_of(request).ask(
        Questions.schedules, search=text, state=state, cursor=cursor, limit=PAGE, runs=STRIP
    )
    return page(
        request,
        "schedules.html",
        page=found,
        text=text,
        state=state,
        states=tuple(ScheduleState),
        here=cursor,
        back=path_here(request),
        done=_done(request),
    )


async def show_schedule(request: Request) -> Response:
    """With `since` in the query, also what a backfill would start."""
    name = request.path_params["name"]
    if not name:
        return redirect(request, "/schedules")
    query, context = request.query_params, context_of(request)
    detail = await context.ask(Questions.schedule, name)
    asked = Form(query.multi_items())
    plan, problem = None, None
    if "since" in query:
        try:
            plan = await context.ask(Questions.plan_backfill, name, **_span(asked))
        except InvalidRequest as error:
            problem = str(error)
    return page(
        request,
        "schedule.html",
        status=200 if problem is None else 400,
        detail=detail,
        schedule=detail.schedule,
        deletable=detail.schedule.origin is not ScheduleOrigin.DECLARED,
        asked=asked,
        plan=plan,
        problem=problem,
        back=schedule_path(name),
        done=_done(request),
    )


async def pause(request: Request) -> Response:
    name, form = await _read(request)
    await context_of(request).act(request, Actions.pause_schedule, name)
    return redirect(request, own_path(form.one("back")))


async def resume(request: Request) -> Response:
    name, form = await _read(request)
    await context_of(request).act(request, Actions.resume_schedule, name)
    return redirect(request, own_path(form.one("back")))


async def trigger(request: Request) -> Response:
    name, form = await _read(request)
    started = await context_of(request).act(request, Actions.trigger_schedule, name)
    return redirect(request, own_path(form.one("back")), did="trigger", started=started.id)


async def backfill(request: Request) -> Response:
    name, form = await _read(request)
    result = await context_of(request).act(request, Actions.backfill_schedule, name, **_span(form))
    return redirect(
        request,
        schedule_path(name),
        did="backfill",
        changed=result.started,
        passed=result.existing,
    )


async def delete(request: Request) -> Response:
    name, _ = await _read(request)
    await context_of(request).act(request, Actions.delete_schedule, name)
    return redirect(request, "/schedules", did="delete")


async def _read(request: Request) -> tuple[str, Form]:
    form = await read_own_form(request)
    return check_name("schedule name", form.one("name")), form


def _state(text: str) -> ScheduleState | None:
    try:
        return ScheduleState(text) if text else None
    except ValueError:
        raise Refused(400, "invalid_state", "Schedules have no such state.") from None


def _span(form: Form) -> dict[str, Any]:
    """The arguments of a backfill, from the fields of its form."""
    until, at_most = form.one("until").strip(), form.one("at_most").strip()
    if at_most and not (at_most.isascii() and at_most.isdigit() and len(at_most) < 10):
        raise InvalidOption(f"at most a number of jobs, such as 100, not {at_most[:40]!r}")
    return {
        "since": _moment(form.one("since").strip()),
        "until": _moment(until) if until else None,
        "at_most": int(at_most) if at_most else None,
    }


def _moment(text: str) -> datetime:
    """Without an offset, in UTC: the field of a form has none."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidOption(f"a time is written 2026-12-24T18:00, not {text[:40]!r}") from None


def _done(request: Request) -> dict[str, str | int] | None:
    """The result of an action, for the page that follows it."""
    query = request.query_params
    match query.get("did"):
        case "trigger" if is_id(query.get("started")):
            return {"action": "trigger", "started": query["started"]}
        case "backfill":
            try:
                changed, passed = int(query["changed"]), int(query["passed"])
            except (KeyError, ValueError):
                return None
            return {"action": "backfill", "changed": changed, "passed": passed}
        case "delete":
            return {"action": "delete"}
        case _:
            return None


ROUTES = [
    Route("/schedules", list_schedules),
    Route("/schedules/pause", pause, methods=["POST"]),
    Route("/schedules/resume", resume, methods=["POST"]),
    Route("/schedules/trigger", trigger, methods=["POST"]),
    Route("/schedules/backfill", backfill, methods=["POST"]),
    Route("/schedules/delete", delete, methods=["POST"]),
    # Last: a schedule may be named `pause`.
    Route("/schedules/{name:path}", show_schedule),
]
