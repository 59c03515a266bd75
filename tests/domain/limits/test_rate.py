"""Rates: never more than the limit in any window, nothing wasted, and no bad ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import accumulate

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from headway import Rate
from headway.domain.limits.rate import MOST
from headway.errors import InvalidOption

START = datetime(2030, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


@st.composite
def rates(draw: st.DrawFn) -> Rate:
    limit = draw(st.integers(1, 200))
    per = draw(st.sampled_from([0.01, 0.5, 1.0, 7.3, 60.0, 3_600.0]))
    return Rate(limit, per=per, burst=draw(st.integers(1, limit)))


def most_in_a_window(starts: list[datetime], per: float) -> int:
    """The largest number of starts in any window of `per` seconds, without its end."""
    window, first, most = timedelta(seconds=per), 0, 0
    for place, start in enumerate(starts):
        while start - starts[first] >= window:
            first += 1
        most = max(most, place - first + 1)
    return most


gaps = st.lists(
    st.tuples(st.floats(0, 3), st.integers(1, 300)), min_size=1, max_size=60
)  # in intervals; how many are wanted


@given(rates(), gaps)
@example(Rate(90, per=60, burst=10), [(1.0, 1)] * 60)
@example(Rate(5, per=1.0, burst=5), [(0.0, 9), (1.0, 9), (5.0, 9)])
def test_no_window_has_more_starts_than_the_limit(
    rate: Rate, claims: list[tuple[float, int]]
) -> None:
    now, paid, starts = START, None, list[datetime]()
    for gap, wanted in claims:
        now += timedelta(seconds=gap * rate.interval)
        granted = min(rate.allowed(paid, now), wanted)
        if granted:
            paid = rate.paid(paid, now, granted)
            starts += [now] * granted
    assert most_in_a_window(starts, rate.per) <= rate.limit


@given(rates(), st.integers(1, 40))
def test_what_is_allowed_is_used(rate: Rate, count: int) -> None:
    """One that looks when it is told to starts a burst at once, and then one in each interval."""
    now, paid, starts = START, None, list[datetime]()
    while len(starts) < rate.burst + count:
        granted = rate.allowed(paid, now)
        if not granted:
            now += timedelta(seconds=rate.next_start(paid, now)) + MICROSECOND
            granted = rate.allowed(paid, now)
            assert granted, "it was told to look now"
        paid = rate.paid(paid, now, granted)
        starts += [now] * granted
    assert starts[: rate.burst] == [START] * rate.burst
    took = (starts[-1] - START).total_seconds()
    assert took <= (len(starts) - rate.burst) * (rate.interval + 3e-6) + 1e-6


@given(rates(), st.integers(0, 1_000))
def test_what_is_spent_is_paid_for(rate: Rate, weight: int) -> None:
    paid = rate.paid(rate.paid(None, START, 1), START, weight)
    wait = rate.next_start(paid, START)
    owed = max(1 + weight - (rate.burst - 1), 0) * rate.interval
    assert wait == pytest.approx(owed, abs=1e-5)
    # Times are kept to the microsecond, in favour of the limit.
    left = max(rate.burst - 1 - weight, 0)
    assert rate.allowed(paid, START + 2 * MICROSECOND) >= left
    assert rate.allowed(paid, START) <= left


@given(rates(), st.lists(st.integers(0, 50), max_size=10))
def test_many_payments_are_at_least_one_of_their_sum(rate: Rate, weights: list[int]) -> None:
    paid = None
    for weight in weights:
        paid = rate.paid(paid, START, weight)
    whole = rate.paid(None, START, sum(weights))
    assert (paid or START) >= whole
    assert (paid or START) - whole <= MICROSECOND * len(weights)


def test_a_rest_gives_no_more_than_the_burst() -> None:
    rate = Rate(10, per=1.0, burst=3)
    paid = rate.paid(None, START, 3)
    assert rate.allowed(paid, START + timedelta(days=1)) == 3
    assert rate.next_start(paid, START + timedelta(days=1)) == 0


def test_however_much_is_spent_can_be_kept() -> None:
    rate = Rate(1, per=timedelta(days=36_000).total_seconds())
    paid = START
    for _ in range(3):
        paid = rate.paid(paid, START, MOST)
    assert paid <= START + timedelta(days=36_525)


@given(rates(), rates(), st.integers(0, 500), st.booleans())
def test_another_rate_is_not_waited_for_longer_than_its_window(
    before: Rate, after: Rate, paid: int, known: bool
) -> None:
    paid_until = before.paid(None, START, paid)
    converted = after.converted(paid_until, START, before if known else None)
    assert converted is not None
    assert after.next_start(converted, START) <= after.per + 1e-6
    assert converted >= START


@given(rates(), rates(), st.integers(1, 50))
def test_another_rate_has_paid_for_as_many_starts(before: Rate, after: Rate, paid: int) -> None:
    assume(paid * after.interval < after.per)
    converted = after.converted(before.paid(None, START, paid), START, before)
    expected = after.paid(None, START, paid)
    assert converted is not None
    error = (expected - converted).total_seconds()
    assert error <= 2e-6 * paid * (1 + after.interval / before.interval)


@given(st.integers(2, 100), st.data(), st.floats(0, 3), st.booleans())
@example(10, None, 0.5, False)
def test_another_burst_lets_no_window_have_more_starts(
    limit: int, data: st.DataObject | None, rest: float, at_once: bool
) -> None:
    bursts = st.integers(1, limit)
    before = Rate(limit, per=4.0, burst=data.draw(bursts) if data else 1)
    after = Rate(limit, per=4.0, burst=data.draw(bursts) if data else limit)
    now, paid, starts = START, None, list[datetime]()
    for rate, seconds in ((before, 8.0), (after, 8.0)):
        if rate is after:
            now += timedelta(seconds=rest)
            paid = after.converted(paid, now, before)
        until = now + timedelta(seconds=seconds)
        while now < until:
            granted = rate.allowed(paid, now)
            if granted:
                paid = rate.paid(paid, now, granted)
                starts += [now] * granted
            now += timedelta(seconds=max(rate.next_start(paid, now), 1e-6))
            if at_once and rate is before:  # the last burst comes right before the change
                now = max(now, until - MICROSECOND)
    # One more, because the start that is next does not wait for others to be forgotten.
    assert most_in_a_window(starts, 4.0) <= limit + 1


def test_a_time_can_be_a_timedelta() -> None:
    assert Rate(5, per=timedelta(minutes=1)) == Rate(5, per=60)  # type: ignore[arg-type]
    assert Rate(5, per=60).per == 60.0
    assert isinstance(Rate(5, per=60).per, float)
    assert str(Rate(90, per=60, burst=10)) == "90 in 60 s, 10 at once"
    assert str(Rate(1, per=0.5)) == "1 in 0.5 s"


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "zero": (lambda: Rate(0, per=1), "to start nothing, pause the queue"),
    "negative": (lambda: Rate(-5, per=1), "between 1 and 1,000,000,000, not -5"),
    "too large": (lambda: Rate(MOST + 1, per=1e9), "between 1 and 1,000,000,000"),
    "fraction": (lambda: Rate(1.5, per=1), "must be a whole number, not float"),  # type: ignore[arg-type]
    "bool": (lambda: Rate(True, per=1), "must be a whole number, not bool"),
    "text": (lambda: Rate("5", per=1), "must be a whole number, not str"),  # type: ignore[arg-type]
    "no time": (lambda: Rate(5, per=0), "`per`, must be longer than 0 seconds"),
    "negative time": (lambda: Rate(5, per=-1), "`per`, must be longer than 0 seconds"),
    "nan": (lambda: Rate(5, per=math.nan), "`per`, must be longer than 0 seconds"),
    "inf": (lambda: Rate(5, per=math.inf), "must be 100 years or less"),
    "text as time": (lambda: Rate(5, per="60"), "is a number of seconds, not str"),  # type: ignore[arg-type]
    "bool as time": (lambda: Rate(5, per=True), "is a number of seconds, not bool"),
    "no burst": (lambda: Rate(5, per=1, burst=0), "between 1 and its limit of 5, not 0"),
    "a burst above": (lambda: Rate(5, per=1, burst=6), "between 1 and its limit of 5, not 6"),
    "burst as bool": (lambda: Rate(5, per=1, burst=True), "must be a whole number, not bool"),
    "burst as fraction": (lambda: Rate(5, per=1, burst=2.0), "must be a whole number, not float"),  # type: ignore[arg-type]
    "too fast": (lambda: Rate(10, per=1e-6), "too fast to be kept"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_rate_is_refused(name: str) -> None:
    make, said = REFUSED[name]
    with pytest.raises(InvalidOption) as caught:
        make()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).count(". ") == 0


def test_gaps_are_what_they_seem() -> None:
    """The counting of the tests above."""
    times = [START + timedelta(seconds=each) for each in accumulate([0, 1, 1, 1, 5])]
    assert most_in_a_window(times, 3.0) == 3
    assert most_in_a_window(times, 3.1) == 4
