"""A request: a job type, its encoded arguments and its options; nothing is stored yet."""

from __future__ import annotations

import math
from typing import Any, Generic, Self, TypeVar, TypeVarTuple

import msgspec

from headway.domain.dedup import Dedup
from headway.domain.errors import InvalidOption
from headway.domain.job import DEFAULT_MAX_ATTEMPTS, DEFAULT_MAX_LOSSES, DEFAULT_QUEUE
from headway.domain.names import check_name
from headway.domain.schedule import NOW, After, At

R = TypeVar("R")
Bs = TypeVarTuple("Bs")

MAX_PRIORITY = 32_767


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a job is to be treated. A job type has defaults, a request may change them."""

    queue: str = DEFAULT_QUEUE
    priority: int = 0
    """Higher runs first within its queue."""
    max_attempts: int | None = DEFAULT_MAX_ATTEMPTS
    """Executions in all, retries included; None is unlimited."""
    max_losses: int = DEFAULT_MAX_LOSSES
    """Leases that may run out before the job is dead-lettered."""
    timeout: float | None = None
    """Seconds that one execution may take."""
    schedule: At | After = NOW
    dedup: Dedup | None = None

    def __post_init__(self) -> None:
        check_name("queue", self.queue)
        if not -MAX_PRIORITY <= self.priority <= MAX_PRIORITY:
            raise InvalidOption(
                f"a priority is between -{MAX_PRIORITY} and {MAX_PRIORITY}, not {self.priority}"
            )
        if self.max_attempts is not None and self.max_attempts < 1:
            raise InvalidOption(
                f"max_attempts must be at least 1, or None for no limit, not {self.max_attempts}"
            )
        if self.max_losses < 1:
            raise InvalidOption(f"max_losses must be at least 1, not {self.max_losses}")
        if self.timeout is not None and not (self.timeout > 0 and math.isfinite(self.timeout)):
            raise InvalidOption(f"a timeout must be longer than 0 seconds, not {self.timeout}")


class Step(Generic[R, *Bs]):
    """What `continue_with` takes: a request for a job that goes on where another one ends.

    `R` is what the sequence yields in the end, `Bs` what the job's blockers yield.
    """

    __slots__ = ("blockers", "id", "input", "options", "type")

    def __init__(
        self,
        type: str,
        input: str,
        options: Options,
        *,
        blockers: tuple[Any, ...] = (),
        id: str | None = None,
    ) -> None:
        self.type = type
        self.input = input
        self.options = options
        self.blockers = blockers
        """Requests, sequences or sequence ids."""
        self.id = id

    def _changed(self, options: Options, blockers: tuple[Any, ...], id: str | None) -> Self:
        return self.__class__(self.type, self.input, options, blockers=blockers, id=id)

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} {self.type}>"


class Request(Step[R, *Bs]):
    """What `start` takes: a request for a job that may begin a sequence."""

    __slots__ = ()


class Continuation(Generic[R]):
    """Returned by a handler to say that its sequence goes on with another job."""

    __slots__ = ("step",)

    def __init__(self, step: Step[R, *tuple[Any, ...]]) -> None:
        self.step = step
