"""The admin API: the questions and actions of `headway.admin.endpoints` as JSON under `/api/v1`,
and their description at `/api/v1/openapi.json`.

`q` is a filter as `headway.domain.filters` reads it. Clients send `Authorization: Bearer TOKEN` or
HTTP basic authentication; bodies are `Content-Type: application/json`. msgspec encodes the values.
Every error answers `{"error": {"code": ..., "message": ...}}`; the code is the name of the error in
snake case: JobNotFound is 404 `job_not_found`, InvalidOption 400 `invalid_option`.
"""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headway.admin.endpoints import ENDPOINTS, AdminEndpoint
from headway.admin.json_answers import json_answer
from headway.web.context import context_of
from headway.web.problems import Refused
from headway.web.request_body import read_json

_encoder = msgspec.json.Encoder()


def routes() -> list[Route]:
    """One for each path, so that a wrong method is told all the right ones; fixed paths come before
    those with an id in them."""
    by_path: dict[str, dict[str, AdminEndpoint]] = {}
    for endpoint in ENDPOINTS:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    paths = sorted(by_path, key=lambda path: "{" in path)
    return [_route(path, by_path[path]) for path in paths]


def _route(path: str, endpoints: dict[str, AdminEndpoint]) -> Route:
    async def respond(request: Request) -> Response:
        endpoint = endpoints["GET" if request.method == "HEAD" else request.method]
        context = context_of(request)
        if endpoint.method == "GET":
            # The path that the dashboard is mounted under may have parameters, too.
            named = {
                name: value for name, value in request.path_params.items() if f"{{{name}}}" in path
            }
            given = endpoint.decode(named, _read_query(request, endpoint))
            answer = await context.ask(endpoint.function, **given)
        else:
            if request.query_params:
                raise Refused(
                    400, "invalid_query", "Parameters belong into the body, not the query."
                )
            given = endpoint.decode({}, await read_json(request, endpoint.parameters))
            answer = await context.act(request, endpoint.function, **given)
        return Response(
            _encoder.encode(json_answer(answer)), endpoint.status, media_type="application/json"
        )

    return Route(path, respond, methods=list(endpoints))


def _read_query(request: Request, endpoint: AdminEndpoint) -> msgspec.Struct:
    query = request.query_params
    try:
        if len(query.keys()) != len(query.multi_items()):
            raise msgspec.ValidationError("a parameter was given twice")
        return msgspec.convert(dict(query), endpoint.parameters, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(400, "invalid_query", f"The query does not fit: {error}.") from None
