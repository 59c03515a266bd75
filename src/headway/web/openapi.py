"""The OpenAPI document, made from the table of endpoints."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from headway.admin.endpoints import ENDPOINTS, PREFIX, AdminEndpoint, ProblemAnswer
from headway.admin.json_answers import describe_payloads

_PROBLEMS = {
    "400": "The request does not fit.",
    "401": "No token or password was sent.",
    "403": "Not allowed: read-only, redacted, or from another site.",
    "404": "There is no such job or schedule.",
    "409": "The job is in another state.",
    "413": "The request is too large.",
    "415": "The body is not JSON.",
    "421": "This host name is not allowed.",
    "429": "Too many wrong tokens or passwords; Retry-After says when to try again.",
    "503": "The store does not answer.",
}


@cache
def openapi_document() -> bytes:
    return msgspec.json.encode(describe())


def describe() -> dict[str, Any]:
    types: list[Any] = [ProblemAnswer]
    for endpoint in ENDPOINTS:
        types += [endpoint.answer, *([endpoint.parameters] if endpoint.method == "POST" else [])]
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    describe_payloads(components)
    answers = iter(schemas)
    problem = next(answers)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in ENDPOINTS:
        answer = next(answers)
        body = next(answers) if endpoint.method == "POST" else None
        described = _describe(endpoint, answer, body, problem)
        paths.setdefault(PREFIX + endpoint.path, {})[endpoint.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headway admin API",
            "version": "1",
            "description": "The questions and actions of the dashboard and the command line.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "password": {"type": "http", "scheme": "basic"},
            },
        },
        "security": [{"token": []}, {"password": []}],
    }


def _describe(
    endpoint: AdminEndpoint, answer: dict[str, Any], body: dict[str, Any] | None, problem: Any
) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "parameters": _parameters(endpoint),
        "responses": {
            str(endpoint.status): _answer("The answer.", answer),
            **{status: _answer(text, problem) for status, text in _PROBLEMS.items()},
        },
    }
    if body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": body}},
        }
    return described


def _answer(text: str, schema: Any) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


def _parameters(endpoint: AdminEndpoint) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", endpoint.path)
    ]
    if endpoint.method == "POST":
        return found
    schema = msgspec.json.schema(endpoint.parameters)
    described = schema["$defs"][endpoint.parameters.__name__]
    found += [
        {
            "name": name,
            "in": "query",
            "required": name in described["required"],
            "schema": _without_null(each),
        }
        for name, each in described["properties"].items()
    ]
    return found


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A query cannot hold null; an absent parameter is left out."""
    plain = {key: value for key, value in schema.items() if key not in ("default", "anyOf")}
    for each in schema.get("anyOf", ()):
        if each != {"type": "null"}:
            plain |= each
    if schema.get("default") is not None:
        plain["default"] = schema["default"]
    return plain
