"""A store whose worker crashes at a given point, as seen by everyone else."""

from __future__ import annotations

import enum
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ParamSpec, TypeVar, cast

from headway.domain.job import ClaimedJobs
from headway.domain.lease import Verdict
from headway.domain.settlement import Settled
from headway.limits.claim import LimitedClaim
from headway.ports.statement import Operation
from headway.ports.store import Store

P = ParamSpec("P")
T = TypeVar("T")


class CrashPoint(enum.StrEnum):
    """The points at which a worker can crash."""

    CLAIMED = "claimed"
    """After a claim; none of the claimed jobs begins."""
    HANDLED = "handled"
    """After a handler; its outcome is not stored."""
    COMMITTED = "committed"
    """After the commit of an outcome, before the worker gets the answer."""


class CrashingStore:
    """Passes every call on until the point is reached. From then on it stores nothing, and answers
    the worker as if it did."""

    def __init__(self, store: Store, point: CrashPoint | None) -> None:
        self._inner = store
        self._point = point
        self._completing: set[int] = set()
        self.crashed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def run(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        name = _name(operation)
        if name == "settle":
            self._crashes_at(CrashPoint.HANDLED)
        if self.crashed:
            return cast("T", _pretended(name, args))
        answer = await self._inner.run(operation, *args, **kwargs)
        if (_is_claim_of_jobs(answer) and self._crashes_at(CrashPoint.CLAIMED)) or (
            name == "settle" and self._crashes_at(CrashPoint.COMMITTED)
        ):
            return cast("T", _pretended(name, args))
        return answer

    def run_sync(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        if self.crashed:
            return cast("T", _pretended(_name(operation), args))
        return self._inner.run_sync(operation, *args, **kwargs)

    async def run_in(
        self, tx: Any, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        if _name(operation) == "settle":
            self._completing.add(id(tx))
        return await self._inner.run_in(tx, operation, *args, **kwargs)

    def begin(self) -> AbstractAsyncContextManager[Any]:
        return self._begin()

    @asynccontextmanager
    async def _begin(self) -> AsyncGenerator[Any]:
        try:
            async with self._inner.begin() as tx:
                yield tx
                if id(tx) in self._completing:
                    self._crashes_at(CrashPoint.HANDLED)
                if self.crashed:
                    raise _LostError
            if id(tx) in self._completing:
                self._crashes_at(CrashPoint.COMMITTED)
        except _LostError:
            pass

    def _crashes_at(self, point: CrashPoint) -> bool:
        if self._point is point:
            self.crashed = True
        return self.crashed


class _LostError(Exception):
    """Rolls back a transaction of the crashed worker."""


def _is_claim_of_jobs(answer: object) -> bool:
    jobs = answer.jobs if isinstance(answer, LimitedClaim) else answer
    return isinstance(answer, ClaimedJobs | LimitedClaim) and bool(jobs)


def _name(operation: Callable[..., Any]) -> str:
    return getattr(operation, "__name__", "")


def _pretended(name: str, args: tuple[Any, ...]) -> Any:
    """An answer as if the operation had succeeded."""
    match name:
        case "claim":
            return ClaimedJobs()
        case "claim_limited":
            return LimitedClaim(jobs=[])
        case "settle":
            return Settled([Verdict.APPLIED] * len(args[0]))
        case "extend":
            return [Verdict.APPLIED] * len(args[0])
        case "blocker_outputs":
            return {}
        case "save_worker":
            return None
        case "delete_workers" | "prune_audit" | "prune":
            return 0
        case _:
            return []
