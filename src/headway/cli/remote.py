"""The questions and levers of a server's admin API, for commands whose target is its address."""

from __future__ import annotations

import asyncio
import base64
import http.client
import ssl
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlencode, urlsplit

import click
import msgspec

from headway.cli.errors import Exit, Failed
from headway.domain.filters import render_filter
from headway.domain.names import check_id
from headway.domain.queries import JobFilter, Page
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
from headway.errors import InvalidOption, JobNotFound

T = TypeVar("T")

TIMEOUT = 30.0
"""Seconds that the server has for an answer."""


class _Problem(msgspec.Struct):
    code: str
    message: str


class _ProblemAnswer(msgspec.Struct):
    error: _Problem


class _Started(msgspec.Struct):
    id: str


class RemoteClient:
    """Questions and actions over HTTP; a connection for each request."""

    def __init__(self, url: str, token: str | None) -> None:
        try:
            parts = urlsplit(url)
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError:
            raise click.UsageError(
                f"{url[:80]!r} is not an address; write http://host:8420"
            ) from None
        self._secure = parts.scheme == "https"
        self._path = f"{parts.path.rstrip('/')}/api/v1"
        self._where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        self._headers = {"Accept": "application/json"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            basic = base64.b64encode(pair.encode()).decode()
            self._headers["Authorization"] = f"Basic {basic}"
        elif token:
            self._headers["Authorization"] = f"Bearer {token}"

    async def overview(self, *, minutes: int = 60) -> Overview:
        return await self._get(Overview, "/overview", minutes=minutes)

    async def queues(self) -> list[QueueSummary]:
        return await self._get(list[QueueSummary], "/queues")

    async def types(self) -> list[TypeSummary]:
        return await self._get(list[TypeSummary], "/types")

    async def jobs(self, which: JobFilter, *, cursor: str | None = None, limit: int = 50) -> Page:
        return await self._get(Page, "/jobs", q=render_filter(which), cursor=cursor, limit=limit)

    async def count(self, which: JobFilter, *, at_most: int = 10_000) -> Counted:
        return await self._get(Counted, "/jobs/count", q=render_filter(which), at_most=at_most)

    async def job(self, id: str) -> JobDetail:
        return await self._get(JobDetail, f"/jobs/{_segment(id)}", about=id)

    async def why(self, id: str) -> Explanation:
        return await self._get(Explanation, f"/jobs/{_segment(id)}/why", about=id)

    async def sequences(
        self, which: JobFilter, *, cursor: str | None = None, limit: int = 50
    ) -> SequencePage:
        asked = render_filter(which)
        return await self._get(SequencePage, "/sequences", q=asked, cursor=cursor, limit=limit)

    async def graph(self, id: str, *, at_most: int = 500) -> SequenceGraph:
        path = f"/sequences/{_segment(id)}/graph"
        return await self._get(SequenceGraph, path, about=id, at_most=at_most)

    async def failures(self, which: JobFilter, *, limit: int = 100) -> list[FailureGroup]:
        return await self._get(list[FailureGroup], "/failures", q=render_filter(which), limit=limit)

    async def workers(self) -> list[WorkerSummary]:
        return await self._get(list[WorkerSummary], "/workers")

    async def audit(self, *, cursor: str | None = None, limit: int = 50) -> AuditPage:
        return await self._get(AuditPage, "/audit", cursor=cursor, limit=limit)

    async def check(self, *, cursor: str | None = None, limit: int = 1_000) -> Checked:
        return await self._get(Checked, "/check", cursor=cursor, limit=limit)

    async def act(self, action: JobAction, ids: Sequence[str]) -> Batch:
        return await self._post(Batch, "/jobs/act", {"action": action, "ids": list(ids)})

    async def act_on_all(
        self, action: JobAction, which: JobFilter, *, cursor: str | None = None
    ) -> Batch:
        body = {"action": action, "q": render_filter(which), "cursor": cursor}
        return await self._post(Batch, "/jobs/act-on-all", body)

    async def pause(self, queue: str) -> None:
        await self._post(object, "/queues/pause", {"queue": queue})

    async def resume(self, queue: str) -> None:
        await self._post(object, "/queues/resume", {"queue": queue})

    async def start(
        self,
        type: str,
        input: str,
        *,
        queue: str | None = None,
        priority: int | None = None,
        delay: float | None = None,
        at: str | None = None,
        key: str | None = None,
    ) -> str:
        body = {
            "type": type,
            "input": input,
            "queue": queue,
            "priority": priority,
            "delay": delay,
            "at": at,
            "key": key,
        }
        return (await self._post(_Started, "/jobs", body)).id

    async def _get(
        self, into: type[T], path: str, *, about: str = "", **query: str | int | None
    ) -> T:
        given = {name: value for name, value in query.items() if value not in (None, "")}
        asked = f"?{urlencode(given)}" if given else ""
        return await asyncio.to_thread(self._ask, into, "GET", path + asked, None, about)

    async def _post(self, into: type[T], path: str, body: dict[str, Any]) -> T:
        given = {name: value for name, value in body.items() if value is not None}
        encoded = msgspec.json.encode(given)
        return await asyncio.to_thread(self._ask, into, "POST", path, encoded, "")

    def _ask(self, into: type[T], method: str, path: str, body: bytes | None, about: str) -> T:
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
            raise self._refusal(status, text, about)
        try:
            return msgspec.json.decode(text, type=into)
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

    def _refusal(self, status: int, text: bytes, about: str) -> Exception:
        try:
            problem = msgspec.json.decode(text, type=_ProblemAnswer).error
        except msgspec.DecodeError:
            return Failed(
                f"{self._where} answers {status}, and is no Headway dashboard by the looks of it",
                Exit.UNREACHABLE,
            )
        return _error(status, problem, about, self._where)


def _error(status: int, problem: _Problem, about: str, where: str) -> Exception:
    match problem.code:
        case "job_not_found" if about:
            return JobNotFound(about)
        case "job_not_found":
            return Failed(problem.message, Exit.NOT_FOUND)
        case "not_authenticated":
            return Failed(f"{where} does not let you in: set HEADWAY_TOKEN", Exit.REFUSED)
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


def _segment(id: str) -> str:
    return quote(check_id(id), safe="")
