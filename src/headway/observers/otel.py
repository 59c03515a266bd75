"""OpenTelemetry metrics and traces through its API; users choose SDK and exporters.

    start             span `start TYPE`, a producer; the job carries its context
      ...
    attempt           span `process TYPE`, a consumer and the root of its own trace, linked to the
                      span that created the job, to the one that started the sequence, and to those
                      that created the last jobs of its blockers

Counters and gauges are read when the SDK collects. Each histogram value and span costs several
times as much as a small job, so their rate is limited.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

try:
    from opentelemetry import context as contexts
    from opentelemetry import metrics, trace
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation
    from opentelemetry.trace import (
        Link,
        Span,
        SpanContext,
        SpanKind,
        Status,
        StatusCode,
        TraceFlags,
        TracerProvider,
        TraceState,
        set_span_in_context,
    )
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "headway.observers.otel needs the OpenTelemetry API: pip install 'headway[otel]'",
        name=error.name,
    ) from error

from headway.domain.events import Event
from headway.domain.failure import first_line
from headway.domain.job import ClaimedJob, NewJob
from headway.errors import Failure, InvalidOption
from headway.observers.counters import (
    COUNTERS,
    JOB,
    LATE,
    PERMIT,
    RUN,
    SEQUENCE,
    WAIT,
    Counter,
    EventCounters,
)
from headway.observers.rate_limit import RateLimit
from headway.observers.trace_context import TraceContext, decode_trace, encode_trace
from headway.ports.tracer import AttemptTrace, StartTrace, Tracer

SYSTEM = "headway"
PER_SECOND = 200
BOUNDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75,
    1.0, 2.5, 5.0, 7.5, 10.0, 30.0, 60.0, 300.0, 1_800.0, 3_600.0,
)  # fmt: skip
"""Seconds: those of the messaging conventions, and larger ones for long jobs."""

_ATTRIBUTES = {
    "type": "headway.job.type",
    "queue": "messaging.destination.name",
    "reason": "headway.reason",
    "limit": "headway.limit",
    "part": "headway.worker.part",
    "where": "headway.code.place",
}
_NO_ERROR = frozenset(
    {"completed", "rescheduled", "released", "shutdown", "cancelled", "already_completed"}
)


class OtelObserver:
    """Metrics and traces. Pass it to the app: `Headway(url, observers=[...])`.

    The default providers are the global ones. `per_second` limits the attempts that get a span, and
    the durations recorded per histogram: above it, an even sample is taken; None: no limit.
    Counters and gauges count everything.
    """

    def __init__(
        self,
        *,
        meter_provider: MeterProvider | None = None,
        tracer_provider: TracerProvider | None = None,
        prefix: str = "headway",
        per_second: float | None = PER_SECOND,
    ) -> None:
        if per_second is not None and per_second < 1:
            raise InvalidOption(f"per_second is 1 or more, or None for no bound, not {per_second}")
        meter = metrics.get_meter("headway", meter_provider=meter_provider)
        self._counters = EventCounters(_Durations(meter, prefix, per_second).measure)
        self.observe: Callable[[Event], None] = self._counters.observe
        self.observe_all: Callable[[Sequence[Event]], None] = self._counters.observe_all
        self.tracer: Tracer = OtelTracer(
            trace.get_tracer("headway", tracer_provider=tracer_provider), RateLimit(per_second)
        )
        for counter in COUNTERS:
            meter.create_observable_counter(
                f"{prefix}.{counter.name}",
                [self._counted(counter)],
                unit="s" if counter.name.endswith(".time") else _unit(counter),
                description=counter.says,
            )
        for name, ask, says in (
            ("processing", self._counters.processing, "Running jobs of this type"),
            ("idle", self._counters.idle, "Free slots that could take a job of this type"),
        ):
            meter.create_observable_up_down_counter(
                f"{prefix}.job_type.{name}",
                [_gauged(ask)],
                unit="{job}" if name == "processing" else "{slot}",
                description=says,
            )

    def _counted(self, counter: Counter) -> Callable[[CallbackOptions], Iterable[Observation]]:
        names = [_ATTRIBUTES[label] for label in counter.labels]

        def observe(_: CallbackOptions) -> list[Observation]:
            return [
                Observation(much, dict(zip(names, labels, strict=True)))
                for labels, much in self._counters.counts(counter).items()
            ]

        return observe


def _gauged(
    ask: Callable[[], dict[str, int]],
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_: CallbackOptions) -> list[Observation]:
        return [Observation(much, {_ATTRIBUTES["type"]: type}) for type, much in ask().items()]

    return observe


def _unit(counter: Counter) -> str:
    kind = counter.name.partition(".")[0]
    for part in ("attempt", "tick", "claim"):
        if f".{part}." in counter.name:
            return f"{{{part}}}"
    if counter.name.endswith(".held"):
        return "{hold}"
    return "{error}" if counter.name.endswith(".error") else f"{{{kind}}}"


class _Durations:
    """The histograms."""

    def __init__(self, meter: Meter, prefix: str, per_second: float | None) -> None:
        def histogram(name: str, says: str) -> Callable[..., None]:
            return meter.create_histogram(
                name, "s", says, explicit_bucket_boundaries_advisory=BOUNDS
            ).record

        self._record = {
            WAIT: histogram(f"{prefix}.job.wait.duration", "From being due to being started"),
            RUN: histogram(f"{prefix}.job.attempt.duration", "Duration of an attempt"),
            JOB: histogram(f"{prefix}.job.duration", "From a job's creation to its completion"),
            SEQUENCE: histogram(
                f"{prefix}.sequence.duration", "From a sequence's creation to its completion"
            ),
            LATE: histogram(
                f"{prefix}.schedule.tick.late.duration",
                "From a tick of a schedule to the start of its job",
            ),
            PERMIT: histogram(
                f"{prefix}.queue.permit.wait.duration",
                "Wait of a due job for a limit of its queue",
            ),
        }
        self._process = histogram("messaging.process.duration", "Duration of processing operation.")
        self._rate_limits = {name: RateLimit(per_second) for name in self._record}

    def measure(self, name: str, seconds: float, type: str, queue: str, failed: str | None) -> None:
        if not self._rate_limits[name].take():
            return
        attributes = {"messaging.destination.name": queue}
        if type:
            attributes["headway.job.type"] = type
        if failed is not None:
            attributes["error.type"] = failed
        self._record[name](seconds, attributes)
        if name == RUN:
            self._process(
                seconds,
                {
                    **attributes,
                    "messaging.system": SYSTEM,
                    "messaging.operation.name": "process",
                },
            )


class OtelTracer:
    """The spans."""

    def __init__(self, tracer: trace.Tracer, rate_limit: RateLimit) -> None:
        self._tracer = tracer
        self._rate_limit = rate_limit

    def start(self, jobs: Sequence[NewJob]) -> StartTrace:
        asked = jobs[-1]  # after its blockers
        attributes: dict[str, str | int] = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": "start",
            "messaging.operation.type": "send",
        }
        if len(jobs) == 1:
            attributes["messaging.message.id"] = asked.id
            attributes["messaging.message.conversation_id"] = asked.sequence_id or asked.id
        else:
            attributes["messaging.batch.message_count"] = len(jobs)
        name = "start"
        if all(job.type == asked.type for job in jobs):
            name = f"start {asked.type}"
            attributes["headway.job.type"] = asked.type
        if all(job.queue == asked.queue for job in jobs):
            attributes["messaging.destination.name"] = asked.queue
        span = self._tracer.start_span(name, kind=SpanKind.PRODUCER, attributes=attributes)
        return _StartSpan(span)

    def attempt(self, job: ClaimedJob, worker: str, blockers: Sequence[str]) -> AttemptTrace | None:
        if not self._rate_limit.take():
            return None
        carried = decode_trace(job.trace)
        began = time.time_ns()
        span = self._tracer.start_span(
            f"process {job.type}",
            context=_EMPTY_CONTEXT,
            kind=SpanKind.CONSUMER,
            attributes={
                "messaging.system": SYSTEM,
                "messaging.operation.name": "process",
                "messaging.operation.type": "process",
                "messaging.destination.name": job.queue,
                "messaging.message.id": job.id,
                "messaging.message.conversation_id": job.sequence_id,
                "messaging.client.id": worker,
                "headway.job.type": job.type,
                "headway.job.attempt": job.attempts + 1,
            },
            links=_links(carried, blockers),
            start_time=began,
        )
        contexts.attach(set_span_in_context(span, _EMPTY_CONTEXT))
        return _Attempt(span, began, carried)


_EMPTY_CONTEXT = contexts.Context()


class _StartSpan:
    def __init__(self, span: Span) -> None:
        self._span = span
        self._token = contexts.attach(set_span_in_context(span))
        context = span.get_span_context()
        self.trace = encode_trace(_trace_context(context)) if context.is_valid else None

    def end(self, error: BaseException | None) -> None:
        contexts.detach(self._token)
        if error is not None:
            kind = type(error).__qualname__
            said = first_line(error)
            self._span.set_attribute("error.type", kind)
            self._span.add_event("exception", {"exception.type": kind, "exception.message": said})
            self._span.set_status(Status(StatusCode.ERROR, said))
        self._span.end()


class _Attempt:
    __slots__ = ("_began", "_carried", "_context", "_span")

    def __init__(self, span: Span, began: int, carried: TraceContext | None) -> None:
        self._span = span
        self._began = began
        self._carried = carried
        self._context = span.get_span_context()

    @property
    def trace_id(self) -> str | None:
        return f"{self._context.trace_id:032x}" if self._context.is_valid else None

    @property
    def onward(self) -> str | None:
        if not self._context.is_valid:
            return None
        before = self._carried
        began = "" if before is None else before.sequence or before.traceparent
        return encode_trace(_trace_context(self._context, began))

    def end(self, outcome: str, seconds: float, failure: Failure | None) -> None:
        span = self._span
        if outcome != "completed":
            span.set_attribute("headway.outcome", outcome)
        if failure is not None:
            span.set_attribute("error.type", failure.type)
            span.add_event(
                "exception",
                {
                    "exception.type": failure.type,
                    "exception.message": failure.message,
                    "exception.stacktrace": failure.traceback,
                },
            )
            span.set_status(Status(StatusCode.ERROR, str(failure)))
        elif outcome not in _NO_ERROR:
            span.set_attribute("error.type", outcome)
            span.set_status(Status(StatusCode.ERROR, outcome.replace("_", " ")))
        span.end(self._began + int(seconds * 1e9))


def _links(carried: TraceContext | None, blockers: Sequence[str]) -> list[Link]:
    found: list[Link] = []
    if carried is not None:
        _add_link(found, carried.traceparent, carried.tracestate, "creator")
        if carried.sequence:
            _add_link(found, carried.sequence, "", "sequence")
    for text in blockers:
        blocker = decode_trace(text)
        if blocker is not None:
            _add_link(found, blocker.traceparent, blocker.tracestate, "blocker")
    return found


def _add_link(links: list[Link], traceparent: str, tracestate: str, kind: str) -> None:
    try:
        context = SpanContext(
            int(traceparent[3:35], 16),
            int(traceparent[36:52], 16),
            is_remote=True,
            trace_flags=TraceFlags(int(traceparent[53:55], 16)),
            trace_state=TraceState.from_header([tracestate]) if tracestate else None,
        )
    except ValueError:  # not written by Headway
        return
    if context.is_valid:
        links.append(Link(context, {"headway.link": kind}))


def _trace_context(context: SpanContext, sequence: str = "") -> TraceContext:
    flags = int(context.trace_flags)
    return TraceContext(
        f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags:02x}",
        context.trace_state.to_header(),
        sequence,
    )
