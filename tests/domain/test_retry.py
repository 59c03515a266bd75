"""The pauses between attempts, and how long the default number of them lasts."""

from __future__ import annotations

from random import Random

from headway import Backoff
from headway.domain.request import Options

HOUR = 3_600.0


def test_the_default_pause_doubles_from_two_seconds_to_an_hour() -> None:
    longest = Backoff(random=lambda: 1.0)
    assert [longest.delay(n) for n in (1, 2, 3, 11, 12, 19)] == [2, 4, 8, 2_048, HOUR, HOUR]
    assert Backoff(random=lambda: 0.0).delay(12) == 0


def test_an_outage_of_an_hour_makes_no_dead_letters_by_default() -> None:
    attempts = Options().max_attempts
    assert attempts == 20
    policy = Backoff(random=Random(1).random)
    lasted = sorted(sum(policy.delay(n) for n in range(1, attempts)) for _ in range(20_000))
    assert lasted[0] > HOUR
    assert 4.4 * HOUR < lasted[10_000] < 4.8 * HOUR
    assert lasted[-1] < 9.14 * HOUR
