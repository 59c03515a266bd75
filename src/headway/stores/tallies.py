"""Tallies of jobs, from counts and from samples of a store."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from headway.domain.job import JobState
from headway.domain.queries import Tally

TallyGroup = tuple[str, str, JobState, bool]
"""Queue, type, state, due."""
TallyPart = tuple[JobState, str | None]
"""Jobs that are counted together: pending jobs by queue, others by state."""


def part_of(group: TallyGroup) -> TallyPart:
    queue, _, state, _ = group
    return state, queue if state is JobState.PENDING else None


def estimate_tallies(
    counted: Mapping[TallyGroup, tuple[int, datetime | None]],
    cut: Collection[TallyPart],
    estimated: Mapping[TallyGroup, int],
) -> list[Tally]:
    """Estimates from a sample count for completed jobs, and for parts whose count was `cut`."""
    groups: dict[TallyGroup, tuple[int, datetime | None, bool]] = {}
    for group in estimated.keys() | counted.keys():
        count, oldest = counted.get(group, (0, None))
        exact = group[2] is not JobState.COMPLETED and part_of(group) not in cut
        if not exact:
            count = max(count, estimated.get(group, 0))
        groups[group] = (count, oldest, exact)
    return make_tallies(groups)


def make_tallies(
    groups: Mapping[TallyGroup, tuple[int, datetime | None, bool]],
) -> list[Tally]:
    """From the count of each group, its earliest `run_at`, and whether the count is exact."""
    return [
        Tally(
            queue=queue,
            type=type_,
            state=state,
            due=due,
            count=count,
            exact=exact,
            oldest=oldest if state is JobState.PENDING else None,
        )
        for (queue, type_, state, due), (count, oldest, exact) in sorted(groups.items())
        if count
    ]
