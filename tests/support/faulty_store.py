"""A memory store that fails or is slow on demand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import ParamSpec, TypeVar

from headway.errors import StoreUnreachable
from headway.ports.statement import Operation
from headway.stores.memory import MemoryStore

P = ParamSpec("P")
T = TypeVar("T")
Hooks = Mapping[str, Callable[[], Awaitable[None]]]
"""By name of an operation."""


class FaultyStore(MemoryStore):
    def __init__(self, *, before: Hooks | None = None, after: Hooks | None = None) -> None:
        """`before` an operation and `after` it, a hook may wait or raise."""
        super().__init__()
        self.away = False
        """While it is, every operation raises StoreUnreachable."""
        self._before = before or {}
        self._after = after or {}

    async def run(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        self._check()
        name = operation.__name__
        if hook := self._before.get(name):
            await hook()
        answer = await super().run(operation, *args, **kwargs)
        if hook := self._after.get(name):
            await hook()
        return answer

    def run_sync(
        self, operation: Callable[P, Operation[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        self._check()
        return super().run_sync(operation, *args, **kwargs)

    def _check(self) -> None:
        if self.away:
            raise StoreUnreachable("the test's store", "it is away")
