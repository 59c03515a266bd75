"""Sequences: the list, and the graph of one."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headway.domain.validation import is_id
from headway.domain.views import SequencePage, ShownState
from headway.ports.admin import Questions
from headway.web.context import context_of
from headway.web.graph.svg import draw
from headway.web.html import page, redirect
from headway.web.pages.jobs import PAGE
from headway.web.search import Search

ENDED = frozenset({ShownState.COMPLETED, ShownState.FAILED, ShownState.CANCELLED})
DRAWN = 300
"""Jobs in a graph; more do not fit a screen."""


async def list_sequences(request: Request) -> Response:
    search = Search.of(request)
    cursor = request.query_params.get("cursor") or None
    found = SequencePage([], None)
    if search.which is not None:
        found = await context_of(request).ask(
            Questions.sequences, search.which, cursor=cursor, limit=PAGE
        )
    return page(request, "sequences.html", search=search, page=found, here=cursor)


async def show_sequence(request: Request) -> Response:
    id = request.path_params["id"]
    if not is_id(id):  # its ending
        found = await context_of(request).ask(Questions.job, id)
        return redirect(request, f"/sequences/{found.job.id}")
    graph = await context_of(request).ask(Questions.graph, id, at_most=DRAWN)
    return page(
        request,
        "sequence.html",
        id=id,
        graph=graph,
        drawing=draw(graph),
        moving=any(node.state not in ENDED for node in graph.nodes),
    )


ROUTES = [
    Route("/sequences", list_sequences),
    Route("/sequences/{id}", show_sequence),
]
