"""The delay before a failed job is tried again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import random
from typing import Protocol

from headway.domain.validation import check_seconds


class RetryPolicy(Protocol):
    """Decides the pause before the next execution."""

    def delay(self, attempts: int) -> float:
        """Seconds to wait after the `attempts`-th recorded failure (1 for the first): from 0 to a
        hundred years. If it raises, or gives anything else, the default Backoff() is used, and the
        recorded failure says so."""
        ...


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with full jitter: random(0, min(base * 2**attempts, cap)) seconds.

    The defaults, with the default number of attempts, outlast an outage of an hour.
    """

    base: float = 1.0
    cap: float = 3_600.0
    random: Callable[[], float] = field(default=random, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_seconds("a backoff's base", self.base, zero=True)
        check_seconds("a backoff's cap", self.cap, zero=True)

    def delay(self, attempts: int) -> float:
        exponent = min(max(attempts, 0), 60)  # beyond that the cap has long been reached
        return self.random() * min(self.base * 2.0**exponent, self.cap)


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same pause every time; 0 retries at once."""

    seconds: float = 0.0

    def __post_init__(self) -> None:
        check_seconds("a retry delay", self.seconds, zero=True)

    def delay(self, attempts: int) -> float:
        return self.seconds
