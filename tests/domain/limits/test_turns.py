"""Turns of keys: shares, caps and fairness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from headway.domain.limits.turns import KeyShare, Turn, in_order, in_turn, interleaved

names = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8).map(sorted)
weights = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 5), max_size=8)
rooms = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 6), max_size=8)


def shares_of(
    keys: list[str | None],
    wanted: int,
    weights: Mapping[str, int] | None = None,
    rooms: Mapping[str, int] | None = None,
    turn: Turn | None = None,
) -> tuple[dict[str | None, int], Turn]:
    shares, then = in_turn(keys, wanted, weights or {}, (rooms or {}).get, turn or Turn())
    assert len({share.key for share in shares}) == len(shares)
    return {share.key: share.limit for share in shares}, then


@given(names, st.booleans(), st.integers(0, 60), weights, rooms)
def test_as_many_as_are_wanted_are_given_and_no_key_gets_more_than_its_room(
    names: list[str],
    keyless: bool,
    wanted: int,
    weights: dict[str, int],
    rooms: dict[str, int],
) -> None:
    keys: list[str | None] = [*names, None] if keyless else [*names]
    shares, _ = shares_of(keys, wanted, weights, rooms)
    assert all(limit > 0 for limit in shares.values())
    assert all(limit <= rooms[key] for key, limit in shares.items() if key in rooms)
    unbounded = keyless or any(name not in rooms for name in names)
    possible = wanted if unbounded else min(wanted, sum(rooms[name] for name in names))
    assert sum(shares.values()) == possible


@given(names.filter(bool), st.integers(1, 60), weights)
def test_shares_are_even_but_for_weights(
    names: list[str], wanted: int, weights: dict[str, int]
) -> None:
    shares, _ = shares_of([*names], wanted, weights)
    rounds = [shares.get(name, 0) / weights.get(name, 1) for name in names]
    assert max(rounds) - min(rounds) <= 1


@given(names.filter(bool), st.booleans(), st.lists(st.integers(1, 9), max_size=30), weights)
def test_many_claims_are_as_fair_as_one(
    names: list[str], keyless: bool, claims: list[int], weights: dict[str, int]
) -> None:
    """Claims of any size, of keys that never run out: the next turn is where the last one ended."""
    circle: list[str | None] = [*names, None] if keyless else [*names]
    turn, given_to = Turn(), Counter[str | None]()
    for wanted in claims:
        begin = next((n for n, key in enumerate(names) if key > turn.after), len(names))
        if begin == len(names) and not keyless:
            begin = 0
        keys = circle[begin:] + circle[:begin]
        shares, turn = shares_of(keys, wanted, weights, turn=turn)
        given_to.update(shares)
    assert given_to.total() == sum(claims)
    rounds = [given_to[key] / (1 if key is None else weights.get(key, 1)) for key in circle]
    assert max(rounds) - min(rounds) <= 1


def test_a_turn_that_was_cut_goes_on() -> None:
    weights = {"a": 3}
    shares, turn = shares_of(["a", "b"], 2, weights)
    assert (shares, turn) == ({"a": 2}, Turn("", "a", 1))
    shares, turn = shares_of(["a", "b"], 2, weights, turn=turn)
    assert (shares, turn) == ({"a": 1, "b": 1}, Turn("b"))


def test_a_turn_that_was_cut_ends_with_the_last_job_of_its_key() -> None:
    _, turn = shares_of(["a", "b"], 2, {"a": 3})
    shares, turn = shares_of(["b"], 1, {"a": 3}, turn=turn)
    assert (shares, turn) == ({"b": 1}, Turn("b"))


def test_jobs_without_a_key_come_after_the_last_key() -> None:
    shares, turn = shares_of(["b", None, "a"], 2, turn=Turn("a"))
    assert (shares, turn) == ({"b": 1, None: 1}, Turn(""))


def test_nothing_is_given_to_nobody() -> None:
    assert in_turn([], 5, {}, lambda _: None, Turn("x")) == ([], Turn("x"))
    assert in_turn(["a"], 0, {}, lambda _: None, Turn("x")) == ([], Turn("x"))
    assert in_turn(["a"], 5, {}, lambda _: 0, Turn("x")) == ([], Turn("x"))


keys_of_jobs = st.lists(st.sampled_from(["a", "b", "c", None]), max_size=40)


@given(keys_of_jobs, st.integers(0, 20), st.integers(1, 4), rooms)
def test_in_order_takes_the_first_that_fit(
    keys: list[str | None], wanted: int, most: int, running: dict[str | None, int]
) -> None:
    shares = {share.key: share.limit for share in in_order(keys, wanted, most, running)}
    taken: Counter[str | None] = Counter()
    for key in keys:
        fits = key is None or running.get(key, 0) + taken[key] < most
        if fits and taken.total() < wanted:
            taken[key] += 1
    assert shares == dict(+taken)
    assert all(
        limit + running.get(key, 0) <= most for key, limit in shares.items() if key is not None
    )


@given(keys_of_jobs, weights)
def test_interleaved_jobs_stay_in_order_within_a_key(
    keys: list[str | None], weights: dict[str, int]
) -> None:
    jobs = list(enumerate(keys))
    mixed = interleaved(jobs, lambda job: job[1], weights)
    assert sorted(mixed, key=lambda job: job[0]) == jobs
    for key in set(keys):
        own = [job for job in mixed if job[1] == key]
        assert own == sorted(own, key=lambda job: job[0])
    # No key is more than a turn ahead of another that has jobs left.
    totals, seen = Counter(keys), Counter[str | None]()
    for _, key in mixed:
        seen[key] += 1
        turn = seen[key] / (1 if key is None else weights.get(key, 1))
        for other, total in totals.items():
            if seen[other] < total:
                done = seen[other] / (1 if other is None else weights.get(other, 1))
                assert turn - done <= 1 + 1e-9


def test_interleaved_jobs_of_two_keys() -> None:
    jobs = ["a1", "a2", "a3", "b1", "b2"]
    assert interleaved(jobs, lambda job: job[0], {}) == ["a1", "b1", "a2", "b2", "a3"]
    assert interleaved(jobs, lambda job: job[0], {"a": 2}) == ["a1", "a2", "b1", "a3", "b2"]


def test_a_share_is_a_key_and_a_number() -> None:
    assert KeyShare("a", 2) == KeyShare("a", 2)
