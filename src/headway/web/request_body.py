"""Reads forms and JSON bodies, within bounds."""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from headway.web.problems import Refused

MAX_FORM = 256 * 1024
MAX_JSON = 4 * 1024 * 1024
MAX_FIELDS = 1_100
"""A page of a thousand jobs may be selected at once."""

T = TypeVar("T")


class Form:
    """The fields of a form; names may repeat."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    def one(self, name: str) -> str:
        return next((value for key, value in self._pairs if key == name), "")

    def all(self, name: str) -> list[str]:
        return [value for key, value in self._pairs if key == name]


async def read_form(request: Request) -> Form:
    if _media_type(request) != "application/x-www-form-urlencoded":
        raise Refused(415, "unsupported_media_type", "Send the form urlencoded.")
    body = await _read(request, MAX_FORM)
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"
        )
    except ValueError:
        raise Refused(400, "bad_form", "The form could not be read.") from None
    return Form(pairs)


async def read_json(request: Request, into: type[T]) -> T:
    # Another site's page can send a form unasked, but not this content type.
    if _media_type(request) != "application/json":
        raise Refused(
            415,
            "unsupported_media_type",
            "Send JSON, with the header Content-Type: application/json.",
        )
    body = await _read(request, MAX_JSON)
    try:
        return msgspec.json.decode(body, type=into)
    except msgspec.DecodeError as error:
        raise Refused(400, "invalid_body", f"The body does not fit: {error}.") from None


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _read(request: Request, limit: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit:
            raise Refused(413, "too_large", f"A request may be {limit:,} bytes long, no more.")
    return bytes(body)
