"""Limits of queues: what is refused, overrides, fingerprints, and what a store keeps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from headway import Rate
from headway.domain.limits.permits import Limit, full_keys, next_key, permits
from headway.domain.limits.queue_limits import (
    MOST_RUNNING,
    MOST_WEIGHTS,
    LimitsOverride,
    QueueLimits,
    QueueState,
    StoredLimits,
    decode_held_keys,
    decode_limits,
    encode_held_keys,
    encode_limits,
)
from headway.errors import HeadwayError

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def limits(**fields: Any) -> Callable[[], QueueLimits]:
    return lambda: QueueLimits(**fields)


def override(**fields: Any) -> Callable[[], LimitsOverride]:
    return lambda: LimitsOverride(**fields)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "running: 0": (limits(running=0), "running must be at least 1; to start nothing, pause"),
    "running: negative": (limits(running=-1), "running is between 1 and 1,000,000, not -1"),
    "running: fraction": (limits(running=2.5), "running must be a whole number, not float"),
    "running: bool": (limits(running=True), "running must be a whole number, not bool"),
    "running: text": (limits(running="5"), "running must be a whole number, not str"),
    "running: many": (limits(running=MOST_RUNNING + 1), "running is between 1 and 1,000,000"),
    "per_key: 0": (limits(per_key=0), "per_key must be at least 1; to start nothing, pause"),
    "per_key: negative": (limits(per_key=-7), "per_key is between 1 and 1,000,000, not -7"),
    "per_key: fraction": (limits(per_key=0.5), "per_key must be a whole number, not float"),
    "rate: number": (limits(rate=90), "rate must be made with Rate, not int"),
    "rate: tuple": (limits(rate=(90, 60)), "rate must be made with Rate, not tuple"),
    "fair: number": (limits(fair=1), "fair is True or False, not 1"),
    "fair: None": (limits(fair=None), "fair is True or False, not None"),
    "weights: not fair": (limits(weights={"a": 2}), "weights need fair=True"),
    "weights: list": (limits(fair=True, weights=[("a", 2)]), "weights are given as a mapping"),
    "weights: None": (limits(fair=True, weights=None), "weights are given as a mapping"),
    "weights: 0": (limits(fair=True, weights={"a": 0}), "key 'a' is between 1 and 1,000, not 0"),
    "weights: many": (limits(fair=True, weights={"a": 1_001}), "between 1 and 1,000, not 1001"),
    "weights: fraction": (limits(fair=True, weights={"a": 1.5}), "must be a whole number"),
    "weights: bool": (limits(fair=True, weights={"a": True}), "must be a whole number"),
    "weights: no key": (limits(fair=True, weights={"": 2}), "a key must not be empty"),
    "weights: long key": (limits(fair=True, weights={"k" * 501: 2}), "at most 500 characters"),
    "weights: number as key": (limits(fair=True, weights={7: 2}), "a key must be a string"),
    "weights: NUL": (limits(fair=True, weights={"a\0": 2}), "must not hold NUL"),
    "weights: too many keys": (
        limits(fair=True, weights={str(n): 1 for n in range(MOST_WEIGHTS + 1)}),
        "at most 10,000 keys can have a weight",
    ),
    "override: running 0": (override(running=0), "to start nothing, pause the queue"),
    "override: per_key bool": (override(per_key=False), "must be a whole number, not bool"),
    "override: rate": (override(rate=5), "rate must be made with Rate, not int"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_limits_are_refused(name: str) -> None:
    make, said = REFUSED[name]
    with pytest.raises(HeadwayError) as caught:
        make()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_limits_say_what_they_are() -> None:
    full = QueueLimits(running=40, per_key=2, rate=Rate(90, per=60, burst=10), fair=True)
    assert str(full) == "40 running; 2 per key; 90 in 60 s, 10 at once; fair"
    assert str(QueueLimits()) == "no limits"
    weights = {"b": 2, "a": 1, "c": 3}
    assert str(QueueLimits(fair=True, weights=weights)) == "fair (weights: a 1, b 2, c 3)"
    weights["d"] = 4
    assert str(QueueLimits(fair=True, weights=weights)) == "fair (weights: a 1, b 2, c 3, …)"
    assert [full.any, full.need_permits, full.by_key] == [True, True, True]
    fair = QueueLimits(fair=True)
    assert [fair.any, fair.need_permits, fair.by_key] == [True, False, True]
    capped = QueueLimits(running=1)
    assert [capped.any, capped.need_permits, capped.by_key] == [True, True, False]
    assert not QueueLimits().any


def test_a_fingerprint_tells_limits_apart() -> None:
    some = [
        QueueLimits(),
        QueueLimits(running=1),
        QueueLimits(per_key=1),
        QueueLimits(fair=True),
        QueueLimits(rate=Rate(1, per=1)),
        QueueLimits(rate=Rate(2, per=1)),
        QueueLimits(rate=Rate(2, per=1, burst=2)),
        QueueLimits(fair=True, weights={"a": 2}),
    ]
    assert len({each.fingerprint for each in some}) == len(some)
    one = QueueLimits(fair=True, weights={"a": 2, "b": 3}, rate=Rate(5, per=60))
    same = QueueLimits(
        rate=Rate(5, per=timedelta(minutes=1)),  # type: ignore[arg-type]
        weights=MappingProxyType({"b": 3, "a": 2}),
        fair=True,
    )
    assert (one, one.fingerprint) == (same, same.fingerprint)


def test_weights_are_those_of_the_declaration_whatever_becomes_of_the_mapping() -> None:
    weights = {"a": 2}
    declared = QueueLimits(fair=True, weights=weights)
    fingerprint = declared.fingerprint
    weights["a"] = 0
    assert declared.weights == {"a": 2}
    assert declared.fingerprint == fingerprint


def test_an_override_replaces_what_it_sets() -> None:
    declared = QueueLimits(running=5, rate=Rate(1, per=1), fair=True, weights={"a": 2})
    assert StoredLimits(declared=declared).effective == declared
    changed = StoredLimits(declared=declared, override=LimitsOverride(running=None, per_key=3))
    assert changed.effective == QueueLimits(
        per_key=3, rate=Rate(1, per=1), fair=True, weights={"a": 2}
    )
    assert LimitsOverride(running=None, per_key=3).changes == {"running": None, "per_key": 3}
    assert LimitsOverride().changes == {}
    assert LimitsOverride().running is UNSET


def _override(fields: dict[str, Any]) -> LimitsOverride:
    return LimitsOverride(**fields)


caps = st.none() | st.integers(1, MOST_RUNNING)
some_rates = st.none() | st.builds(
    Rate, st.integers(5, 500), per=st.floats(0.1, 9e4), burst=st.integers(1, 5)
)
some_limits = st.builds(
    QueueLimits, running=caps, per_key=caps, rate=some_rates, fair=st.booleans()
)
overrides = st.fixed_dictionaries(
    {}, optional={"running": caps, "per_key": caps, "rate": some_rates}
).map(_override)


@given(some_limits, st.none() | overrides, st.lists(st.text("0123abc", min_size=1)))
def test_stored_limits_come_back_as_they_were(
    declared: QueueLimits, override: LimitsOverride | None, replaced: list[str]
) -> None:
    stored = StoredLimits(declared=declared, override=override, replaced=tuple(replaced))
    again = decode_limits(encode_limits(stored))
    assert again == stored
    assert again is not None
    assert again.effective == stored.effective
    assert again.declared.fingerprint == declared.fingerprint


@given(st.dictionaries(st.text(min_size=1), st.datetimes(timezones=st.just(UTC)), max_size=5))
def test_held_keys_come_back_as_they_were(held: dict[str, datetime]) -> None:
    assert decode_held_keys(encode_held_keys(held)) == held


def test_nothing_is_kept_as_nothing() -> None:
    assert encode_limits(None) is None
    assert decode_limits(None) is None
    assert encode_held_keys({}) is None
    assert decode_held_keys(None) == {}


# permits


def state(**fields: Any) -> QueueState:
    return QueueState(name="q", **fields)


@given(st.integers(0, 50), st.integers(1, 20), st.integers(0, 50), st.integers(0, 50))
def test_no_more_permits_than_the_cap_leaves(
    running: int, cap: int, wanted: int, at_once: int
) -> None:
    at_once = min(at_once, wanted)
    answer = permits(state(), QueueLimits(running=cap), running, wanted, at_once, NOW)
    free = max(cap - running, 0)
    assert 0 <= answer.granted <= min(wanted, free)
    assert answer.granted >= min(at_once, free)
    assert answer.free == free
    assert (answer.wait is not None) == (free < at_once)
    # Half of what is left beyond the first ones is left to others.
    assert answer.granted <= max(min(at_once, free), at_once + (free - at_once) // 2)


def test_without_limits_everything_is_granted() -> None:
    answer = permits(state(), QueueLimits(fair=True), 1_000, 7, 2, NOW)
    assert (answer.granted, answer.wait, answer.free) == (7, None, None)


def test_a_hold_comes_first() -> None:
    held = state(held_until=at(5))
    answer = permits(held, QueueLimits(running=5), 0, 3, 3, NOW)
    assert answer.wait is not None
    assert (answer.granted, answer.wait.limit, answer.wait.again_in) == (0, Limit.HELD, 5.0)
    assert permits(held, QueueLimits(running=5), 0, 3, 3, at(5)).granted == 3


def test_a_rate_grants_nothing_ahead() -> None:
    limits = QueueLimits(rate=Rate(10, per=1.0, burst=10))
    answer = permits(state(), limits, 0, 8, 3, NOW)
    assert (answer.granted, answer.wait, answer.free) == (3, None, None)
    answer = permits(state(), limits, 0, 20, 20, NOW)
    assert answer.wait is not None
    assert (answer.granted, answer.wait.limit) == (10, Limit.RATE)
    assert answer.wait.again_in == pytest.approx(1.025)


def test_full_keys_are_those_with_all_they_may_have_and_those_that_are_held() -> None:
    held = state(held_keys={"h": at(5), "over": at(-1)})
    running = {"a": 2, "b": 1, None: 9}
    assert full_keys(held, QueueLimits(per_key=2), running, NOW) == {"a", "h"}
    assert full_keys(held, QueueLimits(), running, NOW) == {"h"}
    assert next_key(held, NOW) == 5.0
    assert next_key(state(), NOW) is None
