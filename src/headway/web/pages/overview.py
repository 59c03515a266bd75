"""The overview, with live updates."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headway.domain.queries import JobFilter
from headway.domain.views import Overview
from headway.ports.admin import Questions
from headway.web.context import context_of
from headway.web.event_stream import EventStream, event
from headway.web.html import page, render

TOP = 6


async def show_overview(request: Request) -> Response:
    context = context_of(request)
    overview = await context.ask(Questions.overview)
    return page(request, "overview.html", overview=overview, plot=plot_data(overview))


async def show_rest(request: Request) -> Response:
    """Queues and failures, which change less often than the counts."""
    context = context_of(request)
    queues = await context.ask(Questions.queues)
    busiest = sorted(queues, key=lambda queue: -sum(each.value for each in queue.states.values()))
    return page(
        request,
        "overview_rest.html",
        queues=busiest[:TOP],
        more_queues=len(queues) - TOP,
        groups=await context.ask(Questions.failures, JobFilter(), limit=TOP),
    )


async def stream(request: Request) -> Response:
    def encode(overview: Overview) -> bytes:
        return event("counts", render(request, "counts.html", overview=overview)) + event(
            "plot", plot_data(overview)
        )

    return EventStream(context_of(request).live, encode)


def plot_data(overview: Overview) -> str:
    """Columns as uPlot takes them: times, completed and failed per second."""
    seconds = overview.bucket_seconds
    columns = [
        [bucket.at.timestamp() for bucket in overview.throughput],
        [round(bucket.completed / seconds, 3) for bucket in overview.throughput],
        [round(bucket.failed / seconds, 3) for bucket in overview.throughput],
    ]
    return msgspec.json.encode(columns).decode()


ROUTES = [
    Route("/", show_overview),
    Route("/overview/rest", show_rest),
    Route("/live", stream),
]
