"""One queue: its limits, the permits in use, its keys, and what operators do with them."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headway.domain.limits.limit_views import SHOWN_KEYS
from headway.domain.limits.queue_limits import NO_LIMITS, LimitsOverride, QueueLimits
from headway.domain.limits.rate import Rate
from headway.domain.validation import check_name
from headway.errors import InvalidOption, InvalidRequest
from headway.ports.admin import Actions, Questions
from headway.web.context import context_of
from headway.web.html import page, queue_path, read_own_form, redirect
from headway.web.request_body import Form

FIELDS = ("running", "per_key", "rate_limit", "rate_per", "rate_burst")
NO_LIMIT = "none"
"""What a field holds for no limit, whatever is declared."""
OR_NONE = f", or {NO_LIMIT} for no limit"
DONE = {
    "limit": "Limits set. They apply from the next claim on; running jobs go on.",
    "clear": "Overrides taken back: the declared limits apply.",
    "release": "Holds released.",
}


async def show_queue(request: Request) -> Response:
    name = request.path_params["name"]
    if not name:
        return redirect(request, "/queues")
    return await _queue_page(request, name)


async def _queue_page(
    request: Request, name: str, *, typed: Form | None = None, problem: str | None = None
) -> Response:
    """The form holds what was typed, or the override."""
    detail = await context_of(request).ask(Questions.queue, name)
    permits = detail.queue.permits
    override = None if permits is None else permits.override
    declared = NO_LIMITS if permits is None else permits.declared
    limits = NO_LIMITS if permits is None else permits.effective
    return page(
        request,
        "queue.html",
        status=200 if problem is None else 400,
        queue=detail.queue,
        warning=detail.warning,
        permits=permits,
        declared=declared,
        limits=limits,
        rows=_rows(declared, override, limits),
        fields=_fields(override) if typed is None else {name: typed.one(name) for name in FIELDS},
        problem=problem,
        shown_keys=SHOWN_KEYS,
        back=queue_path(name),
        done=DONE.get(request.query_params.get("did", "")),
    )


def _rows(
    declared: QueueLimits, override: LimitsOverride | None, effective: QueueLimits
) -> list[tuple[str, str, str | None, str]]:
    """Each limit with its declared value, the override (None: there is none) and the value in
    effect."""
    known = {} if override is None else override.changes

    def said(value: object) -> str:
        match value:
            case None:
                return "no limit"
            case int():
                return f"{value:,}"
            case _:
                return str(value)

    rows = [
        (
            label,
            said(getattr(declared, name)),
            said(known[name]) if name in known else None,
            said(getattr(effective, name)),
        )
        for name, label in (("running", "Running"), ("per_key", "Per key"), ("rate", "Rate"))
    ]
    turns = "keys take turns" if declared.fair else "oldest first"
    return [*rows, ("Order", turns, None, turns)]


async def limit(request: Request) -> Response:
    name, form = await _read(request)
    context = context_of(request)
    permits = (await context.ask(Questions.queue, name)).queue.permits
    try:
        limits = _limits(form, NO_LIMITS if permits is None else permits.declared)
        if not limits:
            await context.act(request, Actions.clear_limits, name)
            return redirect(request, queue_path(name), did="clear")
        await context.act(request, Actions.limit_queue, name, **limits, exactly=True)
    except InvalidRequest as error:
        return await _queue_page(request, name, typed=form, problem=str(error))
    return redirect(request, queue_path(name), did="limit")


async def clear(request: Request) -> Response:
    name, _ = await _read(request)
    await context_of(request).act(request, Actions.clear_limits, name)
    return redirect(request, queue_path(name), did="clear")


async def release(request: Request) -> Response:
    name, _ = await _read(request)
    await context_of(request).act(request, Actions.release_hold, name)
    return redirect(request, queue_path(name), did="release")


async def _read(request: Request) -> tuple[str, Form]:
    form = await read_own_form(request)
    return check_name("queue", form.one("queue")), form


def _fields(override: LimitsOverride | None) -> dict[str, str]:
    """An override as the fields of the form."""
    known = {} if override is None else override.changes
    fields: dict[str, str] = dict.fromkeys(FIELDS, "")
    for name in ("running", "per_key"):
        if name in known:
            fields[name] = NO_LIMIT if known[name] is None else str(known[name])
    rate: Rate | None = known.get("rate")
    if rate is not None:
        fields["rate_limit"] = str(rate.limit)
        fields["rate_per"] = f"{rate.per:.15g}"
        fields["rate_burst"] = str(rate.burst)
    elif "rate" in known:
        fields["rate_limit"] = NO_LIMIT
    return fields


def _limits(form: Form, declared: QueueLimits) -> dict[str, Any]:
    """The limits in the fields of the form, without those that are left as declared."""
    given = {field: form.one(field).strip().lower() for field in FIELDS}
    limits: dict[str, Any] = {}
    for name, label in (("running", "running"), ("per_key", "per key")):
        if text := given[name]:
            limits[name] = None if text == NO_LIMIT else _whole(label, text, OR_NONE)
    limit, per, burst = (given[field] for field in FIELDS[2:])
    if limit == NO_LIMIT:
        if per or burst:
            raise InvalidOption(
                f"a rate of {NO_LIMIT} has no seconds and no burst; leave these fields empty"
            )
        limits["rate"] = None
    elif limit or per or burst:
        limits["rate"] = _rate(limit, per, burst, declared.rate)
    return limits


def _rate(limit: str, per: str, burst: str, declared: Rate | None) -> Rate:
    """What is not given is as declared."""
    if declared is None and not (limit and per):
        raise InvalidOption(
            "a rate is so many starts in so many seconds, such as 90 in 60; fill in both"
        )
    known = declared or Rate(1, 1)
    try:
        seconds = float(per) if per else known.per
    except ValueError:
        raise InvalidOption(
            f"the seconds of a rate are a number such as 60, not {per[:40]!r}"
        ) from None
    return Rate(
        _whole("the number of starts", limit, OR_NONE) if limit else known.limit,
        seconds,
        _whole("the number of starts at once", burst) if burst else known.burst,
    )


def _whole(name: str, text: str, hint: str = "") -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise InvalidOption(f"{name} is a whole number such as 10{hint}, not {text[:40]!r}")
    return int(text)


ROUTES = [
    Route("/queues/limit", limit, methods=["POST"]),
    Route("/queues/clear-limits", clear, methods=["POST"]),
    Route("/queues/release", release, methods=["POST"]),
    # Last: a queue may be named `pause`.
    Route("/queues/{name:path}", show_queue),
]
