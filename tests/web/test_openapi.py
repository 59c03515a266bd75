"""Every bound that the API's description publishes is one that the engine keeps."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx

from headway import Every
from headway.domain.filters import MAX_FILTER
from headway.domain.validation import MAX_NAME
from headway.web.openapi import describe
from tests.web.shop import Shop

OPAQUE = {"cursor"}
"""Nobody makes up a cursor, so there is none at the limit of its length."""
ID = "01890a5d-ac96-774b-bcce-b302099a8057"
SINCE = datetime.now(UTC).isoformat()
BODIES: dict[str, dict[str, Any]] = {
    "start": {"type": "t", "input": "{}"},
    "act": {"action": "retry", "ids": [ID]},
    "act_on_all": {"action": "retry", "q": ""},
    "pause": {"queue": "mail"},
    "resume": {"queue": "mail"},
    "limit_queue": {"queue": "mail", "running": 3},
    "clear_limits": {"queue": "mail"},
    "release_hold": {"queue": "mail"},
    "pause_schedule": {"name": "t"},
    "resume_schedule": {"name": "t"},
    "trigger_schedule": {"name": "t"},
    "backfill_schedule": {"name": "t", "since": SINCE},
    "delete_schedule": {"name": "t"},
}
QUERIES: dict[str, dict[str, Any]] = {
    "queue": {"name": "mail"},
    "schedule": {"name": "t"},
    "explain_schedule": {"name": "t"},
    "plan_backfill": {"name": "t", "since": SINCE},
}
"""Parameters that a request needs."""


def values_at(name: str, schema: dict[str, Any]) -> Iterator[tuple[object, bool]]:
    """Values at the limits and beyond, and whether they are allowed."""
    for each in (schema, *schema.get("anyOf", ())):
        for key, step in (("minimum", -1), ("maximum", 1)):
            if key in each:
                yield each[key], True
                yield each[key] + step, False
        for key, step in (("minLength", -1), ("maxLength", 1), ("minItems", -1), ("maxItems", 1)):
            if key in each:
                yield made(name, each[key]), True
                yield made(name, each[key] + step), False


def made(name: str, length: int) -> object:
    match name:
        case "ids":
            return [f"01890a5d-ac96-774b-bcce-{n:012x}" for n in range(length)]
        case "q":
            return "key:" + "x" * (length - 4)
        case _:
            return "t" * length


def resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    name = schema["$ref"].rpartition("/")[2]
    found: dict[str, Any] = document["components"]["schemas"][name]
    return found


async def test_every_published_bound_is_kept(shop: Shop, client: httpx.AsyncClient) -> None:
    for name in ("t", "t" * MAX_NAME):

        @shop.app.job(name=name)
        async def nothing() -> None:
            pass

        await shop.app.schedules.put(name, Every(days=1), nothing.request())

    sequence = await shop.app.start(shop.greet.request("ada"))
    document = describe()
    tried = 0
    for path, methods in document["paths"].items():
        address = path.replace("{id}", sequence.id)
        for method, operation in methods.items():
            needed = QUERIES.get(operation["operationId"], {})
            asked: list[tuple[dict[str, Any], dict[str, Any] | None, bool]] = [
                ({**needed, each["name"]: value}, None, allowed)
                for each in operation["parameters"]
                if each["name"] not in OPAQUE
                for value, allowed in values_at(each["name"], each["schema"])
            ]
            if "requestBody" in operation:
                schema = operation["requestBody"]["content"]["application/json"]["schema"]
                asked += [
                    ({}, {**BODIES[operation["operationId"]], name: value}, allowed)
                    for name, each in resolved(schema, document)["properties"].items()
                    if name not in OPAQUE
                    for value, allowed in values_at(name, each)
                ]
            for query, body, allowed in asked:
                answer = await client.request(method, address, params=query, json=body)
                said = f"{method} {path} {str(query or body)[:200]}: {answer.text[:200]}"
                assert (answer.status_code < 300) is allowed, said
                tried += 1
    assert tried > 40
    assert len(str(made("q", MAX_FILTER))) == MAX_FILTER
