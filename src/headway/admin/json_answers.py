"""Answers as JSON: payloads and errors, which stores keep as text, become values.

The API and `--json` write answers so; the command line reads those of a dashboard.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec

from headway.domain.failure import decode_failure, encode_failure
from headway.domain.job import AttemptRecord, JobRecord
from headway.domain.queries import Page
from headway.domain.schedules.schedule import ScheduledJob
from headway.domain.schedules.schedule_views import ScheduleDetail
from headway.domain.views import JobDetail
from headway.errors import Failure

T = TypeVar("T")

PAYLOADS = ("input", "output")
"""Fields of a JobRecord that hold JSON."""

_PAYLOAD = {"description": "Any JSON value; text if the payload is not JSON."}
_ERROR = {
    "type": "object",
    "description": "A failure.",
    "properties": {each: {"type": "string"} for each in Failure.__struct_fields__},
    "required": list(Failure.__struct_fields__),
}


def json_answer(answer: Any) -> Any:
    """The answer with values in the place of JSON as text, ready to be encoded."""
    match answer:
        case JobRecord():
            fields = _fields(answer)
            for name in PAYLOADS:
                fields[name] = json_value(fields[name])
            return {**fields, "last_error": _error(answer.last_error)}
        case ScheduledJob():
            return {**_fields(answer), "input": json_value(answer.input)}
        case AttemptRecord():
            return {**_fields(answer), "error": _error(answer.error)}
        case msgspec.Struct():
            return _fields(answer)
        case list() | tuple():
            return [json_answer(each) for each in cast("list[Any]", answer)]
        case _:
            return answer


def decode_answer(text: bytes, type: type[T]) -> T:
    """The answer again. Raises DecodeError if the text is not such an answer."""
    value = msgspec.json.decode(text)
    try:
        if type is Page:
            _as_stored(value["jobs"])
        elif type is JobDetail:
            _as_stored([value["job"]])
            for attempt in value["attempts"]:
                attempt["error"] = _stored_error(attempt["error"])
        elif type is ScheduleDetail:
            value["job"]["input"] = _stored_payload(value["job"]["input"])
    except (KeyError, TypeError) as error:
        raise msgspec.DecodeError(f"{error!r}") from error
    return msgspec.convert(value, type)


def describe_payloads(schemas: dict[str, Any]) -> None:
    """Change the JSON schemas of the types to those of `json_answer`."""
    for name, fields in (
        ("JobRecord", {**dict.fromkeys(PAYLOADS, _PAYLOAD), "last_error": _or_null(_ERROR)}),
        ("AttemptRecord", {"error": _ERROR}),
        ("ScheduledJob", {"input": _PAYLOAD}),
    ):
        if name in schemas:
            schemas[name]["properties"].update(fields)


def _fields(answer: msgspec.Struct) -> dict[str, Any]:
    values = ((name, getattr(answer, name)) for name in answer.__struct_fields__)
    return {name: json_answer(value) for name, value in values if value is not msgspec.UNSET}


def json_value(text: str | None) -> Any:
    if text is None:
        return None
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
    return msgspec.Raw(text.encode())  # as it is: numbers keep all their digits


def _error(text: str | None) -> Any:
    if text is None:
        return None
    failure = decode_failure(text)
    return {name: getattr(failure, name) for name in failure.__struct_fields__}


def _as_stored(jobs: list[dict[str, Any]]) -> None:
    for job in jobs:
        for name in PAYLOADS:
            if job[name] is not None:
                job[name] = _stored_payload(job[name])
        if job["last_error"] is not None:
            job["last_error"] = _stored_error(job["last_error"])


def _stored_payload(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _stored_error(value: dict[str, Any]) -> str:
    return encode_failure(msgspec.convert(value, Failure))


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}
