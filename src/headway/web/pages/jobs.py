"""Jobs: the list with its search, and one job."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headway.domain.lifecycle import offered_actions
from headway.domain.queries import Page
from headway.domain.views import Count, JobAction, JobDetail
from headway.ports.admin import Questions
from headway.web.context import context_of
from headway.web.html import page, path_here, redirect
from headway.web.search import Search

PAGE = 50
COUNTED = 1_000
"""Jobs counted for the list; before an action on all of them, more are counted."""


async def list_jobs(request: Request) -> Response:
    context = context_of(request)
    search = Search.of(request)
    cursor = request.query_params.get("cursor") or None
    found, count = Page([], None), Count(0)
    if search.which is not None:
        found = await context.ask(Questions.jobs, search.which, cursor=cursor, limit=PAGE)
        count = Count(len(found.jobs))
        if cursor is not None or found.cursor is not None:  # these are not all
            count = await context.ask(Questions.count, search.which, at_most=COUNTED)
    return page(
        request,
        "jobs.html",
        search=search,
        page=found,
        count=count,
        at_most=COUNTED,
        here=cursor,
        back=path_here(request),
        done=done(request),
    )


async def show_job(request: Request) -> Response:
    id = request.path_params["id"]
    detail = await context_of(request).ask(Questions.job, id)
    if detail.job.id != id:  # its ending
        return redirect(request, f"/jobs/{detail.job.id}")
    return _job_page(request, "job.html", detail)


async def show_job_head(request: Request) -> Response:
    """The part of a job's page that is refreshed; the whole page if the job has changed."""
    detail = await context_of(request).ask(Questions.job, request.path_params["id"])
    if _mark(detail) != request.query_params.get("mark"):
        return Response(headers={"HX-Refresh": "true"})
    return _job_page(request, "job_head.html", detail)


def _job_page(request: Request, template: str, detail: JobDetail) -> Response:
    return page(
        request,
        template,
        offered=offered_actions(detail.shown),
        detail=detail,
        job=detail.job,
        mark=_mark(detail),
        done=done(request),
    )


def _mark(detail: JobDetail) -> str:
    return f"{detail.shown}-{detail.job.lease_version}-{len(detail.attempts)}"


def done(request: Request) -> dict[str, str | int] | None:
    """The result of an action, for the page that follows it."""
    query = request.query_params
    try:
        action = JobAction(query["did"])
        changed, passed = int(query["changed"]), int(query["passed"])
    except (KeyError, ValueError):
        return None
    return {"action": action, "changed": changed, "passed": passed}


ROUTES = [
    Route("/jobs", list_jobs),
    Route("/jobs/{id}", show_job),
    Route("/jobs/{id}/head", show_job_head),
]
