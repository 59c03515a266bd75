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


class BegunTurn(msgspec.Struct, frozen=True):
    """A turn that was cut short: the key has had this many of the jobs that its weight gives it."""

    key: str
    had: int


def in_turn(
    keys: Sequence[str | None],
    wanted: int,
    weights: Mapping[str, int],
    room: Callable[[str], int | None],
    begun: BegunTurn | None = None,
) -> tuple[list[KeyShare], str | None, BegunTurn | None]:
    """Shares of the keys that are next, `wanted` in all: one job for each, times its weight, in
    turn until all are given out; the key whose turn ended last, None if none did; and the turn that
    was not ended, which the first of the keys may have `begun` before. A key gets no more than its
    room; what it leaves is not given to others, the next claim does that. Keys that come too late
    are left out."""
    turn = [1 if key is None else weights.get(key, 1) for key in keys]
    whole = sum(turn)
    had = min(begun.had, turn[0] - 1) if begun is not None and keys[0] == begun.key else 0
    rounds, rest = divmod(wanted + had, whole) if whole else (0, 0)
    named = [key for key in keys if key is not None]
    ended = named[-1] if rounds and named else None
    cut: BegunTurn | None = None
    shares: list[KeyShare] = []
    for place, (key, weight) in enumerate(zip(keys, turn, strict=True)):
        extra = min(weight, rest)
        rest -= extra
        limit = rounds * weight + extra - (0 if place else had)
        if key is not None:
            if extra == weight:
                ended = key
            elif extra:
                cut = BegunTurn(key, extra)
            free = room(key)
            limit = limit if free is None else min(limit, free)
        if limit > 0:
            shares.append(KeyShare(key, limit))
    return shares, ended, cut


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
