"""OpenTelemetry, with its real SDK: names, units, attributes, parents, links."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from headway import Headway
from headway.domain import events
from headway.domain.orders import ClaimOrder, QueueShare
from headway.domain.settlement import Release
from headway.errors import InvalidOption, JobNotFound
from headway.observers.counters import COUNTERS
from headway.observers.log_formats import JobFields
from headway.observers.otel import OtelObserver
from headway.observers.rate_limit import RateLimit
from headway.observers.trace_context import decode_trace
from tests.support.observed_app import ObservedApp


class Telemetry:
    def __init__(self, **options: Any) -> None:
        self.spans = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        self._reader = InMemoryMetricReader()
        self.meters = MeterProvider([self._reader])
        self.observer = OtelObserver(
            tracer_provider=self.tracers, meter_provider=self.meters, **options
        )

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans.get_finished_spans() if span.name == name]

    def metrics(self) -> dict[str, Any]:
        data = self._reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: metric
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def values(self, name: str) -> dict[tuple[Any, ...], float]:
        """By the values of the attributes, in the order of their names."""
        metric = self.metrics().get(name)
        if metric is None:
            return {}
        return {
            tuple(value for _, value in sorted(point.attributes.items())): getattr(
                point, "value", getattr(point, "count", 0)
            )
            for point in metric.data.data_points
        }

    def close(self) -> None:
        self.tracers.shutdown()
        self.meters.shutdown()


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    telemetry = Telemetry()
    yield telemetry
    telemetry.close()


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def traced(
    request: pytest.FixtureRequest, sqlite_path: Path, telemetry: Telemetry
) -> AsyncIterator[ObservedApp]:
    url = {"memory": "memory://", "sqlite": f"sqlite:///{sqlite_path}"}.get(request.param)
    observed = ObservedApp(url or request.getfixturevalue("postgres_url"), [telemetry.observer])
    async with observed.app:
        yield observed


def link_kinds(span: ReadableSpan) -> dict[str, int]:
    """The linked spans by what they are to this one."""
    return {
        str((link.attributes or {})["headway.link"]): link.context.span_id for link in span.links
    }


def span_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def trace_id(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.trace_id


async def test_a_producer_span_and_a_consumer_span_linked_to_it(
    traced: ObservedApp, telemetry: Telemetry
) -> None:
    tracer = telemetry.tracers.get_tracer("test")
    with tracer.start_as_current_span("request") as request:
        job = await traced.app.start(traced.write.request("dear"))
    async with traced.working():
        await traced.until(events.SequenceCompleted)
    (start,) = telemetry.named("start write")
    assert start.kind is SpanKind.PRODUCER
    assert start.parent is not None
    assert start.parent.span_id == request.get_span_context().span_id
    assert dict(start.attributes or {}) == {
        "messaging.system": "headway",
        "messaging.operation.name": "start",
        "messaging.operation.type": "send",
        "messaging.destination.name": "letters",
        "messaging.message.id": job.id,
        "messaging.message.conversation_id": job.id,
        "headway.job.type": "write",
    }
    (process,) = telemetry.named("process write")
    assert process.kind is SpanKind.CONSUMER
    assert process.parent is None
    assert trace_id(process) != trace_id(start)
    assert dict(process.attributes or {}) == {
        "messaging.system": "headway",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "letters",
        "messaging.message.id": job.id,
        "messaging.message.conversation_id": job.id,
        "messaging.client.id": "w",
        "headway.job.type": "write",
        "headway.job.attempt": 1,
    }
    assert link_kinds(process) == {"creator": span_id(start)}
    assert process.links[0].context.trace_id == trace_id(start)
    assert process.status.status_code is StatusCode.UNSET
    carried = decode_trace((await traced.app.get(job)).trace)
    assert carried is not None
    assert carried.trace_id == f"{trace_id(start):032x}"
    (started,) = traced.seen(events.AttemptStarted)
    assert started.trace_id == f"{trace_id(process):032x}"


async def test_a_sequence_links_back_to_what_came_before_and_to_its_start(
    traced: ObservedApp, telemetry: Telemetry
) -> None:
    await traced.app.start(traced.draft.request("dear"))
    async with traced.working():
        await traced.until(events.SequenceCompleted)
    (start,) = telemetry.named("start draft")
    (first,) = telemetry.named("process draft")
    (second,) = telemetry.named("process write")
    assert link_kinds(first) == {"creator": span_id(start)}
    assert link_kinds(second) == {"creator": span_id(first), "sequence": span_id(start)}


async def test_a_blocked_job_links_to_what_it_waited_for(
    traced: ObservedApp, telemetry: Telemetry
) -> None:
    blocker = await traced.app.start(traced.write.request("dear"))
    await traced.app.start(traced.send.request().using(blockers=(blocker,)))
    async with traced.working():
        await traced.until(events.SequenceCompleted, type="send")
    (before,) = telemetry.named("start write")
    (start,) = telemetry.named("start send")
    (send,) = telemetry.named("process send")
    assert link_kinds(send) == {"creator": span_id(start), "blocker": span_id(before)}


async def test_failed_attempts_say_so_and_each_has_a_span(
    traced: ObservedApp, telemetry: Telemetry
) -> None:
    await traced.app.start(traced.fail.request())
    async with traced.working():
        await traced.until(events.SequenceFailed)
    first, second = telemetry.named("process fail")
    for span, outcome in ((first, "failed"), (second, "dead_lettered")):
        assert span.status.status_code is StatusCode.ERROR
        attributes = span.attributes or {}
        assert attributes["error.type"] == "ValueError"
        assert attributes["headway.outcome"] == outcome
        (event,) = span.events
        assert event.name == "exception"
        assert (event.attributes or {})["exception.message"] == "no ink"
        stack = str((event.attributes or {})["exception.stacktrace"])
        assert stack.splitlines()[1].startswith(f'  File "{Path(__file__).parents[1]}')
    assert [(span.attributes or {})["headway.job.attempt"] for span in (first, second)] == [1, 2]
    assert trace_id(first) != trace_id(second)


async def test_spans_and_logs_of_handlers_belong_to_the_attempt(telemetry: Telemetry) -> None:
    app = Headway("memory://", observers=[telemetry.observer])
    seen: list[str] = []
    tracer = telemetry.tracers.get_tracer("test")

    def note() -> None:
        with tracer.start_as_current_span("inner"):
            record = logging.makeLogRecord({"msg": "x"})
            JobFields().filter(record)
            seen.append(record.__dict__["trace_id"])

    @app.job
    async def on_loop() -> None:
        note()
        await app.start(in_thread.request())

    @app.job
    def in_thread() -> None:
        note()

    async with app:
        await app.start(on_loop.request())
        await app.worker().run(drain=True)
    (loop,) = telemetry.named("process on_loop")
    (thread,) = telemetry.named("process in_thread")
    inner = telemetry.named("inner")
    assert [span.parent and span.parent.span_id for span in inner] == [
        span_id(loop), span_id(thread),
    ]  # fmt: skip
    assert seen == [f"{trace_id(loop):032x}", f"{trace_id(thread):032x}"]
    (start,) = telemetry.named("start in_thread")
    assert start.parent is not None
    assert start.parent.span_id == span_id(loop)
    assert trace.get_current_span() is trace.INVALID_SPAN, "nothing of it is left behind"


async def test_starting_many_is_one_span_and_a_refused_start_an_error(
    telemetry: Telemetry,
) -> None:
    observed = ObservedApp("memory://", [telemetry.observer])
    async with observed.app as app:
        await app.start_many([observed.write.request("a"), observed.write.request("b")])
        with pytest.raises(JobNotFound):
            await app.start(observed.send.request().using(blockers=(app.sequence("0" * 32),)))
    (many,) = telemetry.named("start write")
    assert (many.attributes or {})["messaging.batch.message_count"] == 2
    assert "messaging.message.id" not in (many.attributes or {})
    (refused,) = telemetry.named("start send")
    assert refused.status.status_code is StatusCode.ERROR
    assert (refused.attributes or {})["error.type"] == "JobNotFound"


def test_the_client_without_a_loop_traces_too(telemetry: Telemetry) -> None:
    observed = ObservedApp("memory://", [telemetry.observer])
    tracer = telemetry.tracers.get_tracer("test")
    with observed.app.sync as client, tracer.start_as_current_span("request") as request:
        job = client.start(observed.write.request("dear"))
        carried = decode_trace(client.get(job).trace)
    (start,) = telemetry.named("start write")
    assert start.parent is not None
    assert start.parent.span_id == request.get_span_context().span_id
    assert carried is not None
    assert carried.trace_id == f"{trace_id(start):032x}"


TYPE_QUEUE = ["headway.job.type", "messaging.destination.name"]


async def test_metrics(traced: ObservedApp, telemetry: Telemetry) -> None:
    await traced.app.start(traced.draft.request("dear"))
    await traced.app.start(traced.fail.request())
    await traced.app.start(traced.send.request().using(blockers=(traced.write.request("dear"),)))
    async with traced.working():
        await traced.until(events.SequenceFailed)
        await traced.until(events.SequenceCompleted, 3)
    found = telemetry.metrics()
    write = ("write", "letters")
    assert telemetry.values("headway.job.created")[write] == 2
    assert telemetry.values("headway.job.attempt.started") == {
        write: 2, ("draft", "default"): 1, ("fail", "default"): 2, ("send", "default"): 1,
    }  # fmt: skip
    assert telemetry.values("headway.job.attempt.completed")[write] == 2
    assert telemetry.values("headway.job.attempt.failed") == {("fail", "default"): 2}
    assert telemetry.values("headway.job.completed")[write] == 2
    assert telemetry.values("headway.job.dead_lettered") == {("fail", "default"): 1}
    assert telemetry.values("headway.job.blocked") == {("send", "default"): 1}
    assert telemetry.values("headway.job.unblocked") == {("send", "default"): 1}
    assert telemetry.values("headway.sequence.created")[write] == 1
    assert telemetry.values("headway.sequence.completed")["draft", "letters"] == 1
    assert telemetry.values("headway.sequence.failed") == {("fail", "default"): 1}
    assert telemetry.values("headway.worker.started") == {(): 1}
    assert telemetry.values("headway.worker.stopped") == {(): 1}
    for name, count in {
        "headway.job.wait.duration": 6,
        "headway.job.attempt.duration": 6,
        "headway.job.duration": 4,
        "headway.sequence.duration": 3,
        "messaging.process.duration": 6,
    }.items():
        metric = found[name]
        assert metric.unit == "s"
        assert sum(point.count for point in metric.data.data_points) == count, name
        assert 0.005 in metric.data.data_points[0].explicit_bounds
    assert found["headway.job.created"].unit == "{job}"
    assert found["headway.job.attempt.failed"].unit == "{attempt}"
    assert found["headway.sequence.created"].unit == "{sequence}"
    point = found["headway.job.created"].data.data_points[0]
    assert sorted(point.attributes) == TYPE_QUEUE
    failed = [
        point.attributes
        for point in found["messaging.process.duration"].data.data_points
        if "error.type" in point.attributes
    ]
    assert failed == [
        {
            "messaging.system": "headway",
            "messaging.operation.name": "process",
            "messaging.destination.name": "default",
            "headway.job.type": "fail",
            "error.type": "ValueError",
        }
    ]


def test_ticks(telemetry: Telemetry) -> None:
    tick = datetime(2030, 1, 1, tzinfo=UTC)
    about = ("tenant-7", "write", "letters")
    telemetry.observer.observe(events.ScheduleFired(*about, "1", tick, 0.5))
    telemetry.observer.observe(events.ScheduleSkipped(*about, tick, "missed", 3, replaced=False))
    assert telemetry.values("headway.schedule.tick.fired") == {("write", "letters"): 1}
    skipped = telemetry.values("headway.schedule.tick.skipped")
    assert skipped == {("write", "missed", "letters"): 3}
    found = telemetry.metrics()
    assert found["headway.schedule.tick.fired"].unit == "{tick}"
    late = found["headway.schedule.tick.late.duration"]
    assert late.unit == "s"
    assert [point.sum for point in late.data.data_points] == [0.5]


def test_limits(telemetry: Telemetry) -> None:
    """By queue, and never by key."""
    until = datetime(2030, 1, 1, tzinfo=UTC)
    telemetry.observer.observe(events.ClaimRefused("w", "letters", "rate", 0.5))
    telemetry.observer.observe(events.PermitsGranted("w", "letters", (0.5, 0.25)))
    telemetry.observer.observe(events.QueueHeld("letters", "tenant-7", until, "1", "write"))
    assert telemetry.values("headway.queue.claim.refused") == {("rate", "letters"): 1}
    assert telemetry.values("headway.queue.held") == {("write", "letters"): 1}
    found = telemetry.metrics()
    assert found["headway.queue.claim.refused"].unit == "{claim}"
    assert found["headway.queue.held"].unit == "{hold}"
    waited = found["headway.queue.permit.wait.duration"]
    assert waited.unit == "s"
    (point,) = waited.data.data_points
    assert (point.count, point.sum) == (2, 0.75)
    assert dict(point.attributes) == {"messaging.destination.name": "letters"}


async def test_gauges_show_what_runs_and_net_to_zero(
    traced: ObservedApp, telemetry: Telemetry
) -> None:
    """Whatever happens: success, failure, a lost lease, a shutdown."""
    app = traced.app
    hold = ("hold",)
    await app.start_many([traced.write.request("dear"), traced.write.request("sir")])
    await app.start(traced.fail.request())
    held = [await app.start(traced.hold.request(30.0)) for _ in range(3)]
    async with traced.working(lease_for=1.0, grace=0.0, concurrency=10):
        await traced.until(events.SequenceFailed)
        await traced.until(events.AttemptStarted, 4 + 3)
        assert telemetry.values("headway.job_type.processing")[hold] == 3
        assert telemetry.values("headway.job_type.idle")[hold] == 10 - 3
        await app.cancel(held[0])
        await traced.until(events.LeaseLost, job_id=held[0].id)
        assert telemetry.values("headway.job_type.processing")[hold] == 2
    assert_zero(telemetry)
    outcomes = [
        (span.attributes or {}).get("headway.outcome") for span in telemetry.named("process hold")
    ]
    assert sorted(map(str, outcomes)) == ["cancelled", "released", "released"]


def assert_zero(telemetry: Telemetry) -> None:
    for name in ("processing", "idle"):
        values = telemetry.values(f"headway.job_type.{name}")
        assert values.keys() >= {("hold",), ("write",), ("fail",)}
        assert set(values.values()) == {0}, name


async def test_gauges_net_to_zero_even_if_a_handler_does_not_end(
    telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.worker.worker_run.LAST_WAIT", 0.1)
    observed = ObservedApp("memory://", [telemetry.observer])
    go = asyncio.Event()

    @observed.app.job
    async def stubborn() -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue

    async with observed.app as app:
        left = await app.start(stubborn.request())
        async with observed.working(grace=0.0):
            await observed.until(events.AttemptStarted)
        assert observed.seen(events.LeaseLost, job_id=left.id, reason="shutdown")
        assert_zero(telemetry)
        (span,) = telemetry.named("process stubborn")
        assert (span.attributes or {})["headway.outcome"] == "shutdown"
        go.set()


async def test_a_job_that_another_worker_took_is_counted(
    traced: ObservedApp, telemetry: Telemetry
) -> None:
    """Somebody gave it back behind its back, and another worker claimed it."""
    job = await traced.app.start(traced.hold.request(30.0))
    store = traced.app.store
    async with traced.working(lease_for=5.0, heartbeat_every=0.2, reap_every=60.0):
        await traced.until(events.AttemptStarted)
        record = await traced.app.get(job)
        assert record.lease is not None
        await store.run(store.settle, [Release(job.id, record.lease.token)])
        order = ClaimOrder(
            worker="other",
            token="0b5cdd4e-6ef5-4f5b-9a0c-3d4b0b6f3f7a",
            lease_for=30.0,
            queues=(QueueShare("default", 1),),
            types=("hold",),
            limit=1,
        )
        assert await store.run(store.claim, order)
        await traced.until(events.TakenByAnotherWorker)
    key = ("hold", "default")
    assert telemetry.values("headway.job.attempt.taken_by_another_worker") == {key: 1}
    (span,) = telemetry.named("process hold")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "taken_by_another_worker"


async def test_the_prefix_and_the_names() -> None:
    telemetry = Telemetry(prefix="shop")
    observed = ObservedApp("memory://", [telemetry.observer])
    async with observed.app as app:
        await app.start(observed.write.request("dear"))
        await observed.worker().run(drain=True)
    names = set(telemetry.metrics())
    assert {"shop.job.created", "shop.job_type.idle", "messaging.process.duration"} <= names
    assert not any(name.startswith("headway") for name in names)
    assert {counter.name for counter in COUNTERS} >= {
        "worker.started", "worker.error", "worker.stopping", "worker.stopped", "job.created",
        "job.attempt.started", "job.attempt.taken_by_another_worker",
        "job.attempt.already_completed", "job.attempt.lease_expired", "job.attempt.lease_renewed",
        "job.attempt.failed", "job.attempt.completed", "job.completed", "job.reaped",
        "job.blocked", "job.unblocked", "sequence.created", "sequence.completed",
        "notifier.error", "store.error", "schedule.tick.fired", "schedule.tick.skipped",
    }  # fmt: skip
    telemetry.close()


async def test_above_the_budget_all_is_counted_and_some_is_traced() -> None:
    telemetry = Telemetry(per_second=20)
    observed = ObservedApp("memory://", [telemetry.observer])
    async with observed.app as app:
        await app.start_many([observed.write.request("dear") for _ in range(2_000)])
        await observed.worker().run(drain=True)
    assert telemetry.values("headway.job.completed") == {("write", "letters"): 2_000}
    assert 20 <= len(telemetry.named("process write")) < 1_000
    (recorded,) = telemetry.values("headway.job.duration").values()
    assert 20 <= recorded < 1_000
    telemetry.close()
    with pytest.raises(InvalidOption, match="per_second"):
        OtelObserver(per_second=0)


def test_a_budget_without_bound() -> None:
    budget = RateLimit(None)
    assert all(budget.take() for _ in range(10_000))


async def test_without_an_sdk_nothing_is_carried_and_nothing_breaks() -> None:
    observed = ObservedApp("memory://", [OtelObserver()])
    async with observed.app as app:
        job = await app.start(observed.write.request("dear"))
        await observed.worker().run(drain=True)
        assert (await app.get(job)).trace is None
    assert app.observers.errors == 0
