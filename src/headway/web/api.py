"""The admin API: every question of `headway.ports.admin.Questions` and every lever of `Actions`,
as JSON under `/api/v1`.

    GET   /api/v1/overview?minutes=          Overview
    GET   /api/v1/queues                     [QueueSummary]
    GET   /api/v1/types                      [TypeSummary]
    GET   /api/v1/jobs?q=&cursor=&limit=     Page
    GET   /api/v1/jobs/count?q=&at_most=     Counted
    GET   /api/v1/jobs/{id}                  JobDetail
    GET   /api/v1/jobs/{id}/why              Explanation
    GET   /api/v1/sequences?q=&cursor=&limit=  SequencePage
    GET   /api/v1/sequences/{id}/graph?at_most=  SequenceGraph
    GET   /api/v1/failures?q=&limit=         [FailureGroup]
    GET   /api/v1/workers                    [WorkerSummary]
    GET   /api/v1/audit?cursor=&limit=       AuditPage
    GET   /api/v1/check?cursor=&limit=       Checked
    POST  /api/v1/jobs                       {type, input, queue?, priority?, delay?, at?, key?}
                                               -> Started
    POST  /api/v1/jobs/act                   {action, ids} -> Batch
    POST  /api/v1/jobs/act-on-all            {action, q, cursor?} -> Batch
    POST  /api/v1/queues/pause               {queue} -> QueueChanged
    POST  /api/v1/queues/resume              {queue} -> QueueChanged
    GET   /api/v1/openapi.json               the description of all this, OpenAPI 3.1

`q` is a filter as `headway.domain.filters` reads it. `Authorization: Bearer TOKEN` or HTTP basic
authentication; bodies are `Content-Type: application/json`. Values are encoded as msgspec does it.
Whatever goes wrong answers `{"error": {"code": ..., "message": ...}}`; the code is the name of the
error in snake case: JobNotFound is 404 `job_not_found`, InvalidOption 400 `invalid_option`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headway.domain.filters import MAX_FILTER, parse_filter
from headway.domain.names import MAX_KEY, MAX_NAME, check_name
from headway.domain.queries import MAX_COUNTED, MAX_GRAPH, MAX_MINUTES, MAX_PAGE, Page
from headway.domain.request import MAX_PRIORITY
from headway.domain.views import (
    AuditPage,
    Batch,
    Checked,
    Counted,
    Explanation,
    FailureGroup,
    JobAction,
    JobDetail,
    Overview,
    QueueSummary,
    SequenceGraph,
    SequencePage,
    TypeSummary,
    WorkerSummary,
)
from headway.web.context import Desk, desk_of
from headway.web.problems import Refused
from headway.web.request_body import read_json

PREFIX = "/api/v1"

Filter = Annotated[str, Meta(max_length=MAX_FILTER, description="state:failed type:charge")]
Cursor = Annotated[str, Meta(min_length=1, max_length=2_000, description="From the page before.")]
Limit = Annotated[int, Meta(ge=1, le=MAX_PAGE)]
Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]


class Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters; the base of those that have some."""


class InMinutes(Query, frozen=True):
    minutes: Annotated[int, Meta(ge=1, le=MAX_MINUTES)] = 60


class Filtered(Query, frozen=True):
    q: Filter = ""


class FilteredPage(Filtered, frozen=True):
    cursor: Cursor | None = None
    limit: Limit = 50


class FilteredCount(Filtered, frozen=True):
    at_most: Annotated[int, Meta(ge=1, le=MAX_COUNTED)] = 10_000


class FilteredGroups(Filtered, frozen=True):
    limit: Limit = 100


class GraphSize(Query, frozen=True):
    at_most: Annotated[int, Meta(ge=1, le=MAX_GRAPH)] = 500


class Paged(Query, frozen=True):
    cursor: Cursor | None = None
    limit: Limit = 50


class Checking(Query, frozen=True):
    cursor: Cursor | None = None
    limit: Limit = 1_000


class Start(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job to start: its arguments are JSON, as text."""

    type: Name
    input: str
    queue: Name | None = None
    priority: Annotated[int, Meta(ge=-MAX_PRIORITY, le=MAX_PRIORITY)] | None = None
    delay: Annotated[float, Meta(ge=0, description="Seconds.")] | None = None
    at: Annotated[str, Meta(description="ISO 8601, with an offset.")] | None = None
    key: Annotated[str, Meta(min_length=1, max_length=MAX_KEY)] | None = None


class Started(msgspec.Struct, frozen=True):
    id: str


class Act(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    action: JobAction
    ids: Annotated[list[str], Meta(min_length=1, max_length=MAX_PAGE)]


class ActOnAll(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One batch of everything that matches; go on with the cursor until it is null."""

    action: JobAction
    q: Filter
    cursor: Cursor | None = None


class QueueNamed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    queue: Name


class QueueChanged(msgspec.Struct, frozen=True):
    queue: str
    paused: bool


@dataclass(frozen=True)
class Call:
    """A request, read and checked."""

    desk: Desk
    request: Request
    query: Any
    body: Any

    @property
    def id(self) -> str:
        return str(self.request.path_params["id"])


@dataclass(frozen=True)
class Operation:
    """One address of the API; the document is made from the same fields."""

    method: str
    path: str
    name: str
    summary: str
    answer: Any
    call: Callable[[Call], Awaitable[object]]
    query: type[Query] = Query
    body: type[msgspec.Struct] | None = None
    status: int = 200

    async def respond(self, request: Request) -> Response:
        query = _read_query(request, self.query)
        body = None if self.body is None else await read_json(request, self.body)
        answer = await self.call(Call(desk_of(request), request, query, body))
        return Response(_encoder.encode(answer), self.status, media_type="application/json")


_encoder = msgspec.json.Encoder()


def _read_query(request: Request, into: type[Query]) -> Query:
    names = list(request.query_params.keys())
    try:
        if len(names) != len(request.query_params.multi_items()):
            raise msgspec.ValidationError("a parameter was given twice")
        return msgspec.convert(dict(request.query_params), into, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(400, "invalid_query", f"The query does not fit: {error}.") from None


async def _start(call: Call) -> Started:
    given: Start = call.body
    operator = call.desk.actions(call.request)
    return Started(
        await operator.start(
            given.type,
            given.input,
            queue=given.queue,
            priority=given.priority,
            delay=given.delay,
            at=given.at,
            key=given.key,
        )
    )


async def _act(call: Call) -> Batch:
    given: Act = call.body
    return await call.desk.actions(call.request).act(given.action, given.ids)


async def _act_on_all(call: Call) -> Batch:
    given: ActOnAll = call.body
    which = call.desk.questions.allowed(parse_filter(given.q))
    operator = call.desk.actions(call.request)
    return await operator.act_on_all(given.action, which, cursor=given.cursor)


async def _pause(call: Call) -> QueueChanged:
    queue = check_name("queue", call.body.queue)
    await call.desk.actions(call.request).pause(queue)
    return QueueChanged(queue, paused=True)


async def _resume(call: Call) -> QueueChanged:
    queue = check_name("queue", call.body.queue)
    await call.desk.actions(call.request).resume(queue)
    return QueueChanged(queue, paused=False)


OPERATIONS = (
    Operation(
        "GET", "/overview", "overview", "Counts, throughput, waiting and running times",
        Overview, lambda c: c.desk.questions.overview(minutes=c.query.minutes), InMinutes,
    ),
    Operation(
        "GET", "/queues", "queues", "Queues and what is in them",
        list[QueueSummary], lambda c: c.desk.questions.queues(),
    ),
    Operation(
        "GET", "/types", "types", "Job types and what there is of them",
        list[TypeSummary], lambda c: c.desk.questions.types(),
    ),
    Operation(
        "GET", "/jobs", "jobs", "Jobs that match a filter, newest first",
        Page,
        lambda c: c.desk.questions.jobs(
            parse_filter(c.query.q), cursor=c.query.cursor, limit=c.query.limit
        ),
        FilteredPage,
    ),
    Operation(
        "GET", "/jobs/count", "count", "How many jobs match a filter",
        Counted,
        lambda c: c.desk.questions.count(parse_filter(c.query.q), at_most=c.query.at_most),
        FilteredCount,
    ),
    Operation(
        "GET", "/jobs/{id}", "job", "A job with its attempts, blockers and progress",
        JobDetail, lambda c: c.desk.questions.job(c.id),
    ),
    Operation(
        "GET", "/jobs/{id}/why", "why", "Why a job is not running, or what it does",
        Explanation, lambda c: c.desk.questions.why(c.id),
    ),
    Operation(
        "GET", "/sequences", "sequences", "Sequences, by the jobs they are at",
        SequencePage,
        lambda c: c.desk.questions.sequences(
            parse_filter(c.query.q), cursor=c.query.cursor, limit=c.query.limit
        ),
        FilteredPage,
    ),
    Operation(
        "GET", "/sequences/{id}/graph", "graph", "Everything under the root of a sequence",
        SequenceGraph, lambda c: c.desk.questions.graph(c.id, at_most=c.query.at_most), GraphSize,
    ),
    Operation(
        "GET", "/failures", "failures", "Dead letters by fingerprint",
        list[FailureGroup],
        lambda c: c.desk.questions.failures(parse_filter(c.query.q), limit=c.query.limit),
        FilteredGroups,
    ),
    Operation(
        "GET", "/workers", "workers", "Workers, living or not",
        list[WorkerSummary], lambda c: c.desk.questions.workers(),
    ),
    Operation(
        "GET", "/audit", "audit", "What operators did, newest first",
        AuditPage,
        lambda c: c.desk.questions.audit(cursor=c.query.cursor, limit=c.query.limit),
        Paged,
    ),
    Operation(
        "GET", "/check", "check", "Waiting jobs that this code could not run",
        Checked,
        lambda c: c.desk.questions.check(cursor=c.query.cursor, limit=c.query.limit),
        Checking,
    ),
    Operation(
        "POST", "/jobs", "start", "Start a job of a type known here",
        Started, _start, body=Start, status=201,
    ),
    Operation(
        "POST", "/jobs/act", "act", "Retry, cancel, trigger or delete jobs",
        Batch, _act, body=Act,
    ),
    Operation(
        "POST", "/jobs/act-on-all", "act_on_all", "The same for all that match a filter",
        Batch, _act_on_all, body=ActOnAll,
    ),
    Operation(
        "POST", "/queues/pause", "pause", "Let no more jobs of a queue start",
        QueueChanged, _pause, body=QueueNamed,
    ),
    Operation(
        "POST", "/queues/resume", "resume", "Let them start again",
        QueueChanged, _resume, body=QueueNamed,
    ),
)  # fmt: skip


def routes() -> list[Route]:
    """One for each path, so that a wrong method is told all the right ones; fixed paths come before
    those with an id in them."""
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    paths = sorted(by_path, key=lambda path: "{" in path)
    return [_route(path, by_path[path]) for path in paths]


def _route(path: str, operations: dict[str, Operation]) -> Route:
    async def respond(request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await operations[method].respond(request)

    return Route(path, respond, methods=list(operations))
