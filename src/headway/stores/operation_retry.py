"""Repeated tries of an operation while its database is away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import msgspec

from headway.domain.orders import ClaimOrder
from headway.domain.retry import Backoff
from headway.errors import InvalidOption
from headway.ports.statement import Operation
from headway.runtime.cancellation import Cancels

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OperationRetry:
    """Number of tries of an operation that fails with a transient error, and the pauses between."""

    tries: int = 5
    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.05, cap=2.0))

    def __post_init__(self) -> None:
        if self.tries < 1:
            raise InvalidOption(f"an operation must be tried at least once, not {self.tries} times")

    async def run(
        self, attempt: Callable[[], Awaitable[T]], is_transient: Callable[[BaseException], bool]
    ) -> T:
        for failures in range(1, self.tries):
            try:
                with Cancels():
                    return await attempt()
            except Exception as error:
                if not is_transient(error):
                    raise
            await asyncio.sleep(self.backoff.delay(failures))
        with Cancels():
            return await attempt()

    def run_sync(
        self, attempt: Callable[[], T], is_transient: Callable[[BaseException], bool]
    ) -> T:
        for failures in range(1, self.tries):
            try:
                return attempt()
            except Exception as error:
                if not is_transient(error):
                    raise
            time.sleep(self.backoff.delay(failures))
        return attempt()


def once_more(made: partial[Operation[T]]) -> partial[Operation[T]]:
    """The operation for its next try: a claim first asks for the jobs that an earlier try took."""
    args = [
        msgspec.structs.replace(each, again=True) if isinstance(each, ClaimOrder) else each
        for each in made.args
    ]
    return partial(made.func, *args, **made.keywords)
