"""Prometheus metrics of this process and of the store.

PrometheusObserver   counts events; also a collector, for a registry of your own
QueueCollector       reads the store at each scrape
exposition           the text of `/metrics`: these collectors and the metrics of the process
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
from headway.observers.counters import (
    COUNTERS,
    JOB,
    LATE,
    PERMIT,
    RUN,
    SEQUENCE,
    WAIT,
    EventCounters,
    Labels,
)
from headway.observers.store_gauges import StoreGaugeReader, StoreGauges
from headway.ports.store import Store

BOUNDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 3_600.0,
)  # fmt: skip
"""Seconds."""
_BOUND_NAMES = (*(str(bound) for bound in BOUNDS), "+Inf")
_DURATIONS = {
    WAIT: ("wait_seconds", "Seconds between being due and being started"),
    RUN: ("run_seconds", "Seconds that an attempt took"),
    JOB: ("job_seconds", "Seconds from a job's creation to its completion"),
    SEQUENCE: ("sequence_seconds", "Seconds from a sequence's creation to its completion"),
    LATE: ("tick_late_seconds", "Seconds from a tick of a schedule to the start of its job"),
    PERMIT: ("permit_wait_seconds", "Seconds that a due job waited for a limit of its queue"),
}
_GAUGED = (JobState.BLOCKED, JobState.PENDING, JobState.RUNNING, JobState.FAILED)


class _UndescribedCollector(Collector):
    def describe(self) -> Iterator[Metric]:
        """Nothing, or registering would collect, and so query the store."""
        return iter(())


class PrometheusObserver(_UndescribedCollector):
    """Add it to the app, and to a registry of your own or to `exposition`."""

    def __init__(self, *, prefix: str = "headway") -> None:
        self._prefix = prefix
        self._distributions: dict[str, dict[Labels, _Distribution]] = {
            name: {} for name in _DURATIONS
        }
        self._counters = EventCounters(self._measure)
        self.observe: Callable[[Event], None] = self._counters.observe
        self.observe_all: Callable[[Sequence[Event]], None] = self._counters.observe_all

    def collect(self) -> Iterator[Metric]:
        counters, prefix = self._counters, self._prefix
        for counter in COUNTERS:
            family = CounterMetricFamily(
                f"{prefix}_{counter.plural}", counter.says, labels=counter.labels
            )
            counted = counters.counts(counter)
            if not counter.labels and not counted:
                counted = {(): 0}
            for labels, much in counted.items():
                family.add_metric(labels, much)
            yield family
        for name, (full, says) in _DURATIONS.items():
            names = ("queue",) if name == PERMIT else ("type", "queue")
            durations = HistogramMetricFamily(f"{prefix}_{full}", says, labels=names)
            for labels, distribution in list(self._distributions[name].items()):
                durations.add_metric(labels[-len(names) :], *distribution.cumulated())
            yield durations
        for full, says, found in (
            ("worker_running", "Attempts that run in this process", counters.processing()),
            ("worker_idle", "Free slots here that could take a job", counters.idle()),
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


class QueueCollector(_UndescribedCollector):
    """Jobs by queue, type and state, waiting times and throughput. Each scrape reads the store,
    at most every five seconds, with queries of bounded cost."""

    def __init__(self, store: Store, *, prefix: str = "headway") -> None:
        self._reader = StoreGaugeReader(store)
        self._prefix = prefix

    def collect(self) -> Iterator[Metric]:
        gauges = self._reader.read()
        yield GaugeMetricFamily(
            f"{self._prefix}_store_up", "Whether the store answers", value=gauges is not None
        )
        if gauges is not None:
            yield from self._families(gauges)

    def _families(self, gauges: StoreGauges) -> Iterator[Metric]:
        jobs = GaugeMetricFamily(
            f"{self._prefix}_jobs",
            "Jobs by state; very many are estimated",
            labels=("type", "queue", "state"),
        )
        for each in gauges.tallies:
            if each.state in _GAUGED:
                state = each.state.value if each.due else "scheduled"
                jobs.add_metric((each.type, each.queue, state), each.count)
        yield jobs
        oldest = GaugeMetricFamily(
            f"{self._prefix}_oldest_waiting_seconds",
            "Seconds that the oldest due job has waited",
            labels=("type", "queue"),
        )
        for labels, seconds in gauges.oldest_waiting().items():
            oldest.add_metric(labels, seconds)
        yield oldest
        speed = GaugeMetricFamily(
            f"{self._prefix}_completed_per_second",
            "Jobs completed per second, by all workers, over the last minute",
            labels=("queue",),
        )
        for queue, much in gauges.per_second.items():
            speed.add_metric((queue,), much)
        yield speed
        paused = GaugeMetricFamily(
            f"{self._prefix}_queue_paused", "1 for a paused queue", labels=("queue",)
        )
        for queue in sorted(gauges.paused):
            paused.add_metric((queue,), 1)
        yield paused
        yield from self._permits(gauges)
        yield GaugeMetricFamily(
            f"{self._prefix}_workers", "Workers that are alive", value=gauges.workers
        )

    def _permits(self, gauges: StoreGauges) -> Iterator[Metric]:
        used, free, held = (
            GaugeMetricFamily(f"{self._prefix}_{name}", says, labels=("queue",))
            for name, says in (
                ("permits_used", "Running jobs of a queue that limits how many run at once"),
                ("permits_free", "Jobs that this limit would let run besides"),
                ("queue_held", "1 for a queue of which nothing is started until a time"),
            )
        )
        for queue, permits in gauges.permits.items():
            used.add_metric((queue,), permits.used)
            free.add_metric((queue,), permits.free)
        for queue in sorted(gauges.held):
            held.add_metric((queue,), 1)
        yield used
        yield free
        yield held


class ObserverErrorCounts(Protocol):
    """The counts that an app's `observers` keep."""

    @property
    def errors(self) -> int: ...

    @property
    def dropped(self) -> int: ...


class ObserverCollector(_UndescribedCollector):
    """Errors and dropped events of the app's observers."""

    def __init__(self, observers: ObserverErrorCounts, *, prefix: str = "headway") -> None:
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
            "Events dropped because an observer could not keep up",
            value=self._observers.dropped,
        )


def exposition(*collectors: Collector) -> Callable[[], tuple[str, bytes]]:
    """A function that returns content type and content of `/metrics`, with the metrics of the
    process. Each call collects anew, and blocks for a few seconds at most.

        page = exposition(observer, QueueCollector(app.store))
    """
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    for collector in collectors:
        registry.register(collector)
    return lambda: (CONTENT_TYPE_LATEST, generate_latest(registry))
