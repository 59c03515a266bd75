"""Turns of keys: which keys a claim takes jobs of, and how many of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

T = TypeVar("T")


class KeyShare(msgspec.Struct, frozen=True):
    """A key to claim from, and the most jobs to claim; None: jobs without a key."""

    key: str | None
    limit: int
    since: datetime | None = None
    """A hint: its jobs with an earlier `run_at` are claimed."""


class Turn(msgspec.Struct, frozen=True):
    """Whose turn is next. Keys come by Unicode code points, then the jobs without a key."""

    after: str = ""
    """The next key is the first one after this one."""
    key: str | None = None
    """The key whose turn has begun already."""
    left: int = 0
    """Jobs that it still gets in its turn."""


def in_turn(
    keys: Sequence[str | None],
    wanted: int,
    weights: Mapping[str, int],
    room: Callable[[str], int | None],
    turn: Turn,
) -> tuple[list[KeyShare], Turn]:
    """Shares of the keys that are next, `wanted` in all: one job for each, times its weight, in
    turn until all are given out; and whose turn is next then. A key gets no more than its room."""
    given: Counter[str | None] = Counter()
    begun = turn.left if keys and keys[0] is not None and keys[0] == turn.key else 0
    before = turn.after
    progress = True
    while wanted > 0 and progress:
        progress = False
        for key in keys:
            size = begun or (1 if key is None else weights.get(key, 1))
            begun = 0
            free = None if key is None else room(key)
            if free is not None:
                size = min(size, free - given[key])
            part = min(size, wanted)
            if part > 0:
                progress = True
                given[key] += part
                wanted -= part
                turn = Turn(before, key, size - part) if part < size else Turn(key or "")
            if wanted == 0:
                break
            before = key or ""
    return [KeyShare(key, limit) for key, limit in given.items() if limit > 0], turn


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
