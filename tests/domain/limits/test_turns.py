"""Turns of keys: however small claims are, each key gets what its weight gives it."""

from __future__ import annotations

from collections import Counter

import pytest

from headway.domain.limits.turns import BegunTurn, KeyShare, in_turn


def any_number(key: str) -> None:
    return None


def go_round(keys: list[str], weights: dict[str, int], size: int, claims: int) -> list[str]:
    """The keys of the jobs that claims of this size take, while all keys have jobs."""
    taken: list[str] = []
    last: str | None = None
    begun: BegunTurn | None = None
    for _ in range(claims):
        after = 0 if last is None else keys.index(last) + 1
        turn = [*keys[after:], *keys[:after]]
        shares, ended, begun = in_turn(turn, size, weights, any_number, begun)
        last = ended or last
        taken += [share.key or "" for share in shares for _ in range(share.limit)]
    return taken


def test_a_heavy_key_keeps_its_turn_over_claims_of_one_job() -> None:
    taken = go_round(["a", "b", "c"], {"b": 3}, 1, 10)
    assert taken == ["a", "b", "b", "b", "c", "a", "b", "b", "b", "c"]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 11, 12])
def test_shares_are_by_weight_whatever_the_size_of_claims(size: int) -> None:
    weights = {"a": 2, "c": 3}
    taken = Counter(go_round(["a", "b", "c"], weights, size, 60))
    rounds = size * 60 // 6
    assert taken == {"a": 2 * rounds, "b": rounds, "c": 3 * rounds}


def test_a_begun_turn_of_a_key_without_jobs_is_over() -> None:
    shares, ended, begun = in_turn(["c", "a"], 1, {"b": 3}, any_number, BegunTurn("b", 1))
    assert (shares, ended, begun) == ([KeyShare("c", 1)], "c", None)


def test_what_a_key_leaves_is_not_given_to_others() -> None:
    shares, _, _ = in_turn(["a", "b"], 4, {}, lambda key: 1 if key == "a" else None)
    assert shares == [KeyShare("a", 1), KeyShare("b", 2)]
