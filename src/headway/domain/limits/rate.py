"""Rates: at most so many starts in any window of so many seconds, however the window is laid.

A rate is kept as one moment, `paid_until`: each start moves it on by the interval, from now if it
lies in the past. A start is allowed while it lies less than `burst` intervals ahead. (The generic
cell rate algorithm.) With an interval of `per / (limit - burst + 1)` a burst and the even starts
after it are `limit` starts in a window, where a bucket of tokens would allow twice as many.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta

import msgspec

from headway.domain.validation import LONGEST, check_seconds, check_whole
from headway.errors import InvalidOption

MOST = 1_000_000_000
"""The largest limit of a rate, and the most that can be spent at once."""
HALF_A_MICROSECOND = 5e-7
SLACK = 0.025
"""Seconds by which a window is taken to be longer, at most a twentieth: a handler begins a moment
after its job was claimed, some sooner and some later."""


class Rate(msgspec.Struct, frozen=True):
    """At most `limit` starts in any window of `per` seconds; `burst` of them may come at once, the
    others come evenly."""

    limit: int
    per: float
    """Seconds; a timedelta is taken, too."""
    burst: int = 1

    def __post_init__(self) -> None:
        check_whole("the limit of a rate", self.limit)
        if not 1 <= self.limit <= MOST:
            raise InvalidOption(
                f"the limit of a rate is between 1 and {MOST:,}, not {self.limit}; to start "
                "nothing, pause the queue"
            )
        msgspec.structs.force_setattr(
            self, "per", check_seconds("the time of a rate, `per`,", self.per)
        )
        check_whole("the burst of a rate", self.burst)
        if not 1 <= self.burst <= self.limit:
            raise InvalidOption(
                f"the burst of a rate is between 1 and its limit of {self.limit}, not {self.burst}"
            )
        if self.per / self.limit < 1e-6:
            raise InvalidOption(
                f"a rate of {self.limit} in {self.per:g} seconds is too fast to be kept: a million "
                "starts in a second are the most"
            )

    @property
    def interval(self) -> float:
        """Seconds from one start to the next when they come evenly."""
        return (self.per + min(SLACK, self.per / 20)) / (self.limit - self.burst + 1)

    def allowed(self, paid_until: datetime | None, now: datetime) -> int:
        """The number of starts that are allowed now."""
        ahead = _ahead(paid_until, now) - HALF_A_MICROSECOND  # times are kept to the microsecond
        return max(self.burst - max(math.ceil(ahead / self.interval), 0), 0)

    def next_start(self, paid_until: datetime | None, now: datetime) -> float:
        """Seconds until the next start is allowed; 0 if one is allowed now."""
        return max(_ahead(paid_until, now) - (self.burst - 1) * self.interval, 0.0)

    def paid(self, paid_until: datetime | None, now: datetime, weight: int) -> datetime:
        """`paid_until` after starts of this weight. Rounded up, so that nothing is gained; at most
        a hundred years from now."""
        since = now if paid_until is None else max(paid_until, now)
        microseconds = math.ceil(min(weight * self.interval, LONGEST) * 1e6 - 1e-6)
        latest = now + timedelta(seconds=LONGEST)
        return min(since + timedelta(microseconds=microseconds), latest)

    def converted(
        self, paid_until: datetime | None, now: datetime, before: Rate | None
    ) -> datetime | None:
        """`paid_until` of another rate in the intervals of this one: a rate that was raised does
        not wait as long as the one before would have. Of a burst no more is left than the starts
        that the window before may have had leave of the limit. Nor does any start wait longer than
        the window: all starts before the change lie outside of it then."""
        if paid_until is None:
            return None
        ahead = _ahead(paid_until, now)
        if before is not None:
            since = now - timedelta(seconds=self.per)
            started = math.floor(_ahead(paid_until, since) / before.interval)
            used = self.burst - max(self.limit - started, 1)
            ahead = max(ahead / before.interval, used) * self.interval
        if ahead <= 0:
            return paid_until
        most = (self.burst - 1) * self.interval + self.per
        return now + timedelta(seconds=min(ahead, most))

    def __str__(self) -> str:
        burst = f", {self.burst} at once" if self.burst > 1 else ""
        return f"{self.limit} in {self.per:g} s{burst}"


def _ahead(paid_until: datetime | None, now: datetime) -> float:
    return 0.0 if paid_until is None else max((paid_until - now).total_seconds(), 0.0)
