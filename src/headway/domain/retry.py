"""How long to wait before a failed job is tried again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import random
from typing import Protocol

from headway.domain.errors import InvalidOption


class RetryPolicy(Protocol):
    """Decides the pause before the next execution."""

    def delay(self, attempts: int) -> float:
        """Seconds to wait after the `attempts`-th recorded failure (1 for the first)."""
        ...


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with full jitter: random(0, min(base * 2**attempts, cap)) seconds."""

    base: float = 0.5
    cap: float = 30.0
    random: Callable[[], float] = field(default=random, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.base < 0 or self.cap < 0:
            raise InvalidOption("a backoff's base and cap must not be negative")

    def delay(self, attempts: int) -> float:
        exponent = min(max(attempts, 0), 60)  # beyond that the cap has long been reached
        return self.random() * min(self.base * 2.0**exponent, self.cap)


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same pause every time; 0 retries at once."""

    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.seconds < 0:
            raise InvalidOption("a retry delay must not be negative")

    def delay(self, attempts: int) -> float:
        return self.seconds
