"""A store that makes the worker on it die at a named point, as far as anyone else can tell."""

from __future__ import annotations

import enum
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ParamSpec, TypeVar, cast

from headway.domain.lease import Verdict
from headway.domain.settlement import Settled
from headway.ports.statement import Operation
from headway.ports.store import Store

P = ParamSpec("P")
T = TypeVar("T")


class Point(enum.StrEnum):
    """Where a worker can die."""

    CLAIMED = "claimed"
    """It has claimed jobs, and begins none of them."""
    HANDLED = "handled"
    """A handler has returned, or failed, and nothing of that is stored."""
    COMMITTED = "committed"
    """The outcome is stored, and the worker does not hear of it."""


class MortalStore:
    """Passes everything on until the point is reached. From then on the worker lives in a world of
    its own: it is told that all went well, and nothing that it does is stored."""

    def __init__(self, store: Store, point: Point | None) -> None:
        self._inner = store
        self._point = point
        self._completing: set[int] = set()
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def run(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        name = _name(operation)
        if name == "settle":
            self._dies_at(Point.HANDLED)
        if self.dead:
            return cast("T", _as_if(name, args))
        answer = await self._inner.run(operation, *args, **kwargs)
        if (name == "claim" and answer and self._dies_at(Point.CLAIMED)) or (
            name == "settle" and self._dies_at(Point.COMMITTED)
        ):
            return cast("T", _as_if(name, args))
        return answer

    def run_sync(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        if self.dead:
            return cast("T", _as_if(_name(operation), args))
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
                    self._dies_at(Point.HANDLED)
                if self.dead:
                    raise _LostError
            if id(tx) in self._completing:
                self._dies_at(Point.COMMITTED)
        except _LostError:
            pass

    def _dies_at(self, point: Point) -> bool:
        if self._point is point:
            self.dead = True
        return self.dead


class _LostError(Exception):
    """Rolls back what a dead worker would have committed."""


def _name(operation: Callable[..., Any]) -> str:
    return getattr(operation, "__name__", "")


def _as_if(name: str, args: tuple[Any, ...]) -> Any:
    """What the store would have answered."""
    match name:
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
