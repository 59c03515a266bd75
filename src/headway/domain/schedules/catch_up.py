"""Catching up: which ticks that passed while no worker ran are still fired."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, Literal

import msgspec

from headway.domain.text import length_arguments, span
from headway.domain.validation import check_seconds, check_whole, sum_of_lengths
from headway.errors import InvalidOption

DEFAULT_WITHIN: Final = timedelta(hours=1)
MAX_TICKS: Final = 10_000


class CatchUp(msgspec.Struct, frozen=True):
    """Made with `CatchUp.none()`, `CatchUp.latest(…)` or `CatchUp.all(…)`: fires the newest
    `at_most` of the missed ticks that are not older than `within`."""

    mode: Literal["none", "latest", "all"]
    within: timedelta
    at_most: int

    def __post_init__(self) -> None:
        what = f"CatchUp.{self.mode}(...)"
        check_whole(f"at_most of {what}", self.at_most)
        if self.mode == "all" and not 1 <= self.at_most <= MAX_TICKS:
            raise InvalidOption(
                f"at_most of {what} must be between 1 and {MAX_TICKS:,}, not {self.at_most:,}"
            )
        check_seconds(what, self.within, zero=self.mode == "none")

    @classmethod
    def none(cls) -> CatchUp:
        """Missed ticks are skipped."""
        return cls("none", timedelta(), 0)

    @classmethod
    def latest(
        cls,
        within: timedelta | None = None,
        *,
        days: float | None = None,
        hours: float | None = None,
        minutes: float | None = None,
        seconds: float | None = None,
    ) -> CatchUp:
        """The last missed tick is fired, unless it is older than this: 1 hour by default."""
        given = (days, hours, minutes, seconds)
        if within is None and given == (None, None, None, None):
            return cls("latest", DEFAULT_WITHIN, 1)
        numbers = (0 if each is None else each for each in given)
        return cls("latest", sum_of_lengths("CatchUp.latest(...)", within, *numbers), 1)

    @classmethod
    def all(
        cls,
        within: timedelta | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        at_most: int = 100,
    ) -> CatchUp:
        """All missed ticks are fired that are not older than this, the newest `at_most`."""
        what = "CatchUp.all(...)"
        total = sum_of_lengths(what, within, days, hours, minutes, seconds)
        if not total:
            raise InvalidOption(
                f"{what} needs a length of time, beyond which ticks are not caught up: "
                "CatchUp.all(hours=6)"
            )
        return cls("all", total, at_most)

    def __repr__(self) -> str:
        match self.mode:
            case "none":
                return "CatchUp.none()"
            case "latest":
                return f"CatchUp.latest({length_arguments(self.within)})"
            case "all":
                return f"CatchUp.all({length_arguments(self.within)}, at_most={self.at_most})"

    def __str__(self) -> str:
        length = span(self.within.total_seconds())
        match self.mode:
            case "none":
                return "none"
            case "latest":
                return f"latest within {length}"
            case "all":
                return f"all within {length}, at most {self.at_most:,}"
