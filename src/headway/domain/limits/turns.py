"""Turns of keys: which keys a claim takes jobs of, and how many of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

T = TypeVar("T")


class KeyShare(msgspec.Struct, frozen=True):
    """A key to claim from, and the most jobs to claim; None: jobs without a key."""

    key: str | None
    limit: int


def in_turn(
    keys: Sequence[str | None],
    wanted: int,
    weights: Mapping[str, int],
    room: Callable[[str], int | None],
) -> tuple[list[KeyShare], str | None]:
    """Shares of the keys that are next, `wanted` in all: one job for each, times its weight, in
    turn until all are given out; and the last key that was given more than the next ones, None if
    all were given the same. A key gets no more than its room; what it leaves is not given to
    others, the next claim does that. Keys that come too late are left out."""
    turn = [1 if key is None else weights.get(key, 1) for key in keys]
    whole = sum(turn)
    rounds, rest = divmod(wanted, whole) if whole else (0, 0)
    shares: list[KeyShare] = []
    last: str | None = None
    for key, weight in zip(keys, turn, strict=True):
        extra = min(weight, rest)
        rest -= extra
        limit = rounds * weight + extra
        if key is not None:
            if extra:
                last = key
            free = room(key)
            limit = limit if free is None else min(limit, free)
        if limit > 0:
            shares.append(KeyShare(key, limit))
    return shares, last


def interleaved(
    jobs: Iterable[T], key: Callable[[T], str | None], weights: Mapping[str, int]
) -> list[T]:
    """The jobs of several keys so that keys take turns; those of one key stay in their order."""
    places: Counter[str | None] = Counter()
    rounds: list[tuple[int, T]] = []
    for job in jobs:
        own = key(job)
        rounds.append((places[own] // (1 if own is None else weights.get(own, 1)), job))
        places[own] += 1
    rounds.sort(key=lambda each: each[0])
    return [job for _, job in rounds]


def in_order(
    keys: Iterable[str | None], wanted: int, most: int, running: Mapping[str | None, int]
) -> list[KeyShare]:
    """Shares for jobs in their order, given by their keys: the first `wanted` of them that leave no
    key with more than `most` running jobs. Jobs without a key are not counted."""
    taken: Counter[str | None] = Counter()
    for key in keys:
        if taken.total() >= wanted:
            break
        if key is None or running.get(key, 0) + taken[key] < most:
            taken[key] += 1
    return [KeyShare(key, limit) for key, limit in taken.items()]
