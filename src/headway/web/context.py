"""The store and the settings of one dashboard, for its pages and its API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from starlette.requests import Request

from headway.app import Headway
from headway.domain.queries import JobFilter
from headway.domain.views import CheckPage, Overview
from headway.ports.admin import Actions, Questions
from headway.web.event_stream import Broadcast
from headway.web.security.access import Authenticator
from headway.web.security.redaction import Redaction

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Context:
    """Pages and API read and change the store only through `ask` and `act`: filters on redacted
    fields are refused, and answers come without them."""

    app: Headway
    redaction: Redaction
    authenticator: Authenticator
    allow_writes: bool
    live: Broadcast[Overview]

    async def ask(
        self,
        question: Callable[Concatenate[Questions, P], Awaitable[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The answer to `Questions.jobs` or another question, redacted."""
        questions = self.app.questions
        answer: T = await self._call(getattr(questions, question.__name__), *args, **kwargs)
        if isinstance(answer, CheckPage) and answer.incompatible:
            ids = tuple(each.job_id for each in answer.incompatible)
            page = await questions.jobs(JobFilter(ids=ids), limit=len(ids))
            return cast("T", self.redaction.check(answer, page.jobs))
        return self.redaction.answer(answer)

    async def act(
        self,
        request: Request,
        action: Callable[Concatenate[Actions, P], Awaitable[T]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Do `Actions.act` or another action in the name of the user who sent the request."""
        actions = self.app.actions(cast("str", request.scope["headway.actor"]))
        return cast("T", await self._call(getattr(actions, action.__name__), *args, **kwargs))

    async def _call(self, method: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        given = [self._checked(each) for each in args]
        return await method(*given, **{name: self._checked(kwargs[name]) for name in kwargs})

    def _checked(self, given: object) -> object:
        return self.redaction.checked_filter(given) if isinstance(given, JobFilter) else given


def context_of(request: Request) -> Context:
    return cast("Context", request.app.state.context)
