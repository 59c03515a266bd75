"""A dashboard's admin API, for commands whose target is its address."""

from __future__ import annotations

import asyncio
import base64
import http.client
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

import click
import msgspec

from headway.admin.endpoints import ENDPOINTS, PREFIX, AdminEndpoint, Problem, ProblemAnswer
from headway.admin.json_answers import decode_answer
from headway.cli.errors import Exit, Failed
from headway.errors import InvalidOption

TIMEOUT = 30.0
"""Seconds that the dashboard has for an answer."""


class DashboardClient:
    """`Questions` and `Actions` over HTTP; a connection for each request."""

    def __init__(self, url: str, token: str | None) -> None:
        try:
            parts = urlsplit(url)
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError:
            raise click.UsageError(
                f"{url[:80]!r} is not an address; write http://host:8420"
            ) from None
        self._secure = parts.scheme == "https"
        self._path = f"{parts.path.rstrip('/')}{PREFIX}"
        self._where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self._headers = {"Accept": "application/json"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            basic = base64.b64encode(pair.encode()).decode()
            self._headers["Authorization"] = f"Basic {basic}"
        elif token:
            self._headers["Authorization"] = f"Bearer {token}"

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        """The questions and actions of `headway.ports.admin`, by name."""
        for endpoint in ENDPOINTS:
            if endpoint.name == name:
                return partial(self._call, endpoint)
        raise AttributeError(name)

    async def _call(self, endpoint: AdminEndpoint, *args: Any, **kwargs: Any) -> Any:
        path, given = endpoint.encode(*args, **kwargs)
        body = None
        if endpoint.method == "POST":
            body = msgspec.json.encode(given)
        elif given:
            path += f"?{urlencode(given)}"
        return await asyncio.to_thread(self._send, endpoint.method, path, body, endpoint.answer)

    def _send(self, method: str, path: str, body: bytes | None, into: Any) -> Any:
        connection = self._connection()
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            connection.request(method, self._path + path, body, headers)
            answer = connection.getresponse()
            status, text = answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            why = str(error) or type(error).__name__
            raise Failed(
                f"cannot reach {self._where}: {why}; is the dashboard running there?",
                Exit.UNREACHABLE,
            ) from error
        finally:
            connection.close()
        if not 200 <= status < 300:
            raise self._refusal(status, text)
        try:
            return decode_answer(text, into)
        except msgspec.DecodeError as error:
            raise Failed(
                f"{self._where} answers, but not as this version expects ({error}); is it a "
                "dashboard of the same version?"
            ) from error

    def _connection(self) -> http.client.HTTPConnection:
        if self._secure:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=TIMEOUT, context=context
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT)

    def _refusal(self, status: int, text: bytes) -> Exception:
        try:
            problem = msgspec.json.decode(text, type=ProblemAnswer).error
        except msgspec.DecodeError:
            return Failed(
                f"{self._where} answers {status}, and does not look like a Headway dashboard",
                Exit.UNREACHABLE,
            )
        return _error(status, problem, self._where)


def _error(status: int, problem: Problem, where: str) -> Exception:
    match problem.code:
        case "job_not_found" | "schedule_not_found":
            return Failed(problem.message, Exit.NOT_FOUND)
        case "not_authenticated":
            return Failed(f"{where} refuses access: set HEADWAY_TOKEN", Exit.REFUSED)
        case "read_only":
            return Failed(f"{where} is read-only; it was started without --write", Exit.REFUSED)
        case _ if status == 503:
            return Failed(problem.message, Exit.UNREACHABLE)
        case _ if status in (401, 403, 421):
            return Failed(problem.message, Exit.REFUSED)
        case _ if status == 400:
            return InvalidOption(problem.message)
        case _:
            return Failed(problem.message)
