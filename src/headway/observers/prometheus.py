"""Prometheus: what this process did, and what the store holds, in its text format.

PrometheusObserver   counts events; itself a collector, for a registry of your own
QueueCollector       asks the store when it is scraped
exposition           both, and the process's own figures, as a page
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Protocol

try:
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        Metric,
    )
    from prometheus_client.process_collector import ProcessCollector
    from prometheus_client.registry import Collector
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "headway.observers.prometheus needs its client: pip install 'headway[prometheus]'",
        name=error.name,
    ) from error

from headway.domain.events import Event
from headway.domain.job import JobState
from headway.observers.counters import COUNTERS, JOB, RUN, SEQUENCE, WAIT, Counting, Labels
from headway.observers.store_gauges import Survey, Surveyor
from headway.ports.store import Store

BOUNDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 3_600.0,
)  # fmt: skip
"""Seconds."""
_BOUND_NAMES = (*(str(bound) for bound in BOUNDS), "+Inf")
_DURATIONS = {
    WAIT: ("wait_seconds", "Seconds between being due and being started"),
    RUN: ("run_seconds", "Seconds that an execution took"),
    JOB: ("job_seconds", "Seconds from a job's creation to its completion"),
    SEQUENCE: ("sequence_seconds", "Seconds from a sequence's creation to its completion"),
}
_GAUGED = (JobState.BLOCKED, JobState.PENDING, JobState.RUNNING, JobState.FAILED)


class _Quiet(Collector):
    def describe(self) -> Iterator[Metric]:
        """Nothing: else a registry collects, and so asks the store, when this is registered."""
        return iter(())


class PrometheusObserver(_Quiet):
    """Give it to the app, and to a registry of yours or to `exposition`."""

    def __init__(self, *, prefix: str = "headway") -> None:
        self._prefix = prefix
        self._distributions: dict[str, dict[Labels, _Distribution]] = {
            name: {} for name in _DURATIONS
        }
        self._counting = Counting(self._measure)
        self.observe: Callable[[Event], None] = self._counting.observe
        self.observe_all: Callable[[Sequence[Event]], None] = self._counting.observe_all

    def collect(self) -> Iterator[Metric]:
        counting, prefix = self._counting, self._prefix
        for counter in COUNTERS:
            family = CounterMetricFamily(
                f"{prefix}_{counter.plural}", counter.says, labels=counter.labels
            )
            counted = counting.counts(counter)
            if not counter.labels and not counted:
                counted = {(): 0}
            for labels, much in counted.items():
                family.add_metric(labels, much)
            yield family
        for name, (full, says) in _DURATIONS.items():
            durations = HistogramMetricFamily(f"{prefix}_{full}", says, labels=("type", "queue"))
            for labels, distribution in list(self._distributions[name].items()):
                durations.add_metric(labels, *distribution.cumulated())
            yield durations
        for full, says, found in (
            ("worker_running", "Executions that run in this process", counting.processing()),
            ("worker_idle", "Free slots here that could take a job", counting.idle()),
        ):
            gauge = GaugeMetricFamily(f"{prefix}_{full}", says, labels=("type",))
            for type, much in found.items():
                gauge.add_metric((type,), much)
            yield gauge

    def _measure(
        self, name: str, seconds: float, type: str, queue: str, failed: str | None
    ) -> None:
        distributions = self._distributions[name]
        distribution = distributions.get((type, queue))
        if distribution is None:
            distribution = distributions[type, queue] = _Distribution()
        distribution.counts[bisect_left(BOUNDS, seconds)] += 1
        distribution.sum += seconds


class _Distribution:
    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * len(_BOUND_NAMES)
        self.sum = 0.0

    def cumulated(self) -> tuple[list[tuple[str, float]], float]:
        return list(zip(_BOUND_NAMES, accumulate(self.counts), strict=True)), self.sum


class QueueCollector(_Quiet):
    """Jobs by queue, type and state, how long they wait, how fast they are done. The store is asked
    when this is scraped, at most every five seconds, and only for what it finds in bounded time."""

    def __init__(self, store: Store, *, prefix: str = "headway") -> None:
        self._surveyor = Surveyor(store)
        self._prefix = prefix

    def collect(self) -> Iterator[Metric]:
        survey = self._surveyor.survey()
        yield GaugeMetricFamily(
            f"{self._prefix}_store_up", "Whether the store answers", value=survey is not None
        )
        if survey is not None:
            yield from self._families(survey)

    def _families(self, survey: Survey) -> Iterator[Metric]:
        jobs = GaugeMetricFamily(
            f"{self._prefix}_jobs",
            "Jobs by state; very many are estimated",
            labels=("type", "queue", "state"),
        )
        for each in survey.tallies:
            if each.state in _GAUGED:
                state = each.state.value if each.due else "scheduled"
                jobs.add_metric((each.type, each.queue, state), each.count)
        yield jobs
        oldest = GaugeMetricFamily(
            f"{self._prefix}_oldest_waiting_seconds",
            "How long the longest due job has waited",
            labels=("type", "queue"),
        )
        for labels, seconds in survey.oldest_waiting().items():
            oldest.add_metric(labels, seconds)
        yield oldest
        speed = GaugeMetricFamily(
            f"{self._prefix}_completed_per_second",
            "Jobs completed per second, by all workers, over the last minute",
            labels=("queue",),
        )
        for queue, much in survey.per_second.items():
            speed.add_metric((queue,), much)
        yield speed
        paused = GaugeMetricFamily(
            f"{self._prefix}_queue_paused", "1 for a paused queue", labels=("queue",)
        )
        for queue in sorted(survey.paused):
            paused.add_metric((queue,), 1)
        yield paused
        yield GaugeMetricFamily(
            f"{self._prefix}_workers", "Workers that live", value=survey.workers
        )


class Listening(Protocol):
    """An app's `observers`."""

    @property
    def errors(self) -> int: ...

    @property
    def dropped(self) -> int: ...


class ObserverCollector(_Quiet):
    """How the app's observers themselves fare."""

    def __init__(self, observers: Listening, *, prefix: str = "headway") -> None:
        self._observers = observers
        self._prefix = prefix

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            f"{self._prefix}_observer_errors",
            "Times that an observer raised",
            value=self._observers.errors,
        )
        yield CounterMetricFamily(
            f"{self._prefix}_observer_dropped",
            "Events that went by an observer that could not keep up",
            value=self._observers.dropped,
        )


def exposition(*collectors: Collector) -> Callable[[], tuple[str, bytes]]:
    """Makes the page that `/metrics` shows, its type and its content, anew with each call. A call
    blocks, for a few seconds at most. The process's own figures are on it, too.

        page = exposition(observer, QueueCollector(app.store))
    """
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    for collector in collectors:
        registry.register(collector)
    return lambda: (CONTENT_TYPE_LATEST, generate_latest(registry))
