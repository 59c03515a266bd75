"""Statistics from the counts of a store: states, time slices, percentiles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from headway.domain.filters import matches_type
from headway.domain.job import JobState
from headway.domain.queries import EndedCount, JobFilter, Tally
from headway.domain.views import Bucket, Count, Percentiles, ShownState

BUCKETS = 60


def is_tallied(which: JobFilter) -> bool:
    """Whether a filter has only conditions that the tallies can answer."""
    return which == JobFilter(
        states=which.states, due=which.due, types=which.types, queues=which.queues
    )


def fits(tally: Tally, which: JobFilter) -> bool:
    return (
        (not which.states or tally.state in which.states)
        and (which.due is None or tally.state is not JobState.PENDING or tally.due is which.due)
        and (not which.types or any(matches_type(each, tally.type) for each in which.types))
        and (not which.queues or tally.queue in which.queues)
    )


def by_state(
    tallies: Iterable[Tally], unsure: frozenset[JobState] = frozenset()
) -> dict[ShownState, Count]:
    """Counts of all states; those in `unsure` are never exact."""
    states = {state: Count(0, _stored(state) not in unsure) for state in ShownState}
    for tally in tallies:
        state = ShownState(tally.state) if tally.due else ShownState.SCHEDULED
        known = states[state]
        states[state] = Count(known.value + tally.count, known.exact and tally.exact)
    return states


def unsure(tallies: Iterable[Tally]) -> frozenset[JobState]:
    """States of which not all jobs were seen, so that a queue without any may still have some.
    Pending jobs are looked for in each queue."""
    return frozenset(
        tally.state for tally in tallies if not tally.exact and tally.state is not JobState.PENDING
    )


def _stored(state: ShownState) -> JobState:
    return JobState.PENDING if state is ShownState.SCHEDULED else JobState(state)


def oldest(tallies: Iterable[Tally], now: datetime) -> float | None:
    """Waiting time of the oldest due job, in seconds."""
    moments = [
        tally.oldest
        for tally in tallies
        if tally.state is JobState.PENDING and tally.due and tally.oldest is not None
    ]
    return max((now - min(moments)).total_seconds(), 0.0) if moments else None


def buckets(ended: Iterable[EndedCount], seconds: float, now: datetime) -> list[Bucket]:
    completed = [0.0] * BUCKETS
    failed = [0.0] * BUCKETS
    for count in ended:
        number = count.count * seconds / count.covered
        if count.state is JobState.COMPLETED:
            completed[count.slice] += number
        elif count.state is JobState.FAILED:
            failed[count.slice] += number
    since = now - timedelta(seconds=BUCKETS * seconds)
    return [
        Bucket(since + timedelta(seconds=place * seconds), round(done), round(lost))
        for place, (done, lost) in enumerate(zip(completed, failed, strict=True))
    ]


def percentiles(values: Iterable[float]) -> Percentiles | None:
    ordered = sorted(max(value, 0.0) for value in values)
    if not ordered:
        return None
    return Percentiles(
        _quantile(ordered, 0.5), _quantile(ordered, 0.95), _quantile(ordered, 0.99), len(ordered)
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
