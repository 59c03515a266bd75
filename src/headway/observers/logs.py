"""Events as log lines of Python's logging: one readable line each, with fields."""

from __future__ import annotations

import logging
from typing import Any, assert_never

from headway.domain import events
from headway.domain.events import Event
from headway.domain.text import plural, visible
from headway.errors import Failure

LONGEST = 2_000
"""Characters of a line."""


class LogObserver:
    """Writes each event to a logger; events that need attention at WARNING or ERROR. Every app with
    a worker has one.

    A record has the event's fields as attributes (`job_id`, `job_type`, `worker`, `seconds`, ...)
    and its name as `event`. It never contains a payload.
    """

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("headway")

    @property
    def every_job(self) -> bool:
        return self._logger.isEnabledFor(logging.DEBUG)

    def observe(self, event: Event) -> None:
        level = level_of(event)
        logger = self._logger
        if not logger.isEnabledFor(level):
            return
        text = visible(line(event), longest=LONGEST)
        record = logger.makeRecord(
            logger.name, level, __file__, 0, text, (), None, extra=fields(event)
        )
        if (
            isinstance(event, events.AttemptFailed | events.JobDeadLettered)
            and event.failure.traceback
        ):
            record.exc_text = event.failure.traceback.rstrip()
        logger.handle(record)


def level_of(event: Event) -> int:
    match event:
        case events.JobDeadLettered():
            return logging.ERROR
        case events.AttemptFailed(retry_in=None):
            return logging.DEBUG  # JobDeadLettered follows, and says the same
        case (
            events.AttemptFailed()
            | events.JobReaped()
            | events.LeaseLost()
            | events.LoopBlocked()
            | events.ScheduleSkipped(reason="missed", replaced=False)
            | events.ScheduleFailed()
            | events.SchedulesRefused()
            | events.TypesUnattended()
            | events.WorkerTroubled()
        ):
            return logging.WARNING
        case (
            events.LoopResumed()
            | events.QueueHeld()
            | events.ScheduleSkipped()
            | events.WorkerRecovered()
            | events.WorkerStarted()
            | events.WorkerStopped()
            | events.WorkerStopping()
        ):
            return logging.INFO
        case _:
            return logging.DEBUG


def fields(event: Event) -> dict[str, Any]:
    """The event's fields, by their names in log records."""
    found: dict[str, Any] = {"event": type(event).__name__}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if isinstance(value, Failure):
            found["error_type"] = value.type
            found["error"] = value.message
        elif name == "type":
            found["sequence_type" if isinstance(event, events.SequenceEvent) else "job_type"] = (
                value
            )
        elif value is not None and not isinstance(value, BaseException):
            found[name] = value
    return found


def line(event: Event) -> str:
    """The event in one line."""
    match event:
        case events.WorkerStarted():
            types = plural(len(event.types), "job type")
            fires = plural(len(event.schedules), "declared schedule")
            return (
                f"worker {event.worker} started: {types} from {', '.join(event.queues)}"
                f"{f'; fires {fires}' if event.schedules else ''}"
            )
        case events.WorkerStopping():
            return f"worker {event.worker} is stopping"
        case events.WorkerStopped():
            return f"worker {event.worker} stopped"
        case events.WorkerTroubled():
            return f"worker {event.worker}: {event.part} failed and tries again: {event.error}"
        case events.WorkerRecovered():
            return f"worker {event.worker}: {event.part} works again"
        case events.StoreFailed():
            return f"{_who(event.worker)}: the store failed the {event.part}: {event.error}"
        case events.NotifierFailed():
            return f"{_who(event.worker)}: the notifier failed: {event.error}"
        case events.LoopBlocked():
            job = f" by {event.type} {event.job_id}" if event.job_id else ""
            return (
                f"worker {event.worker}: the event loop has been blocked for "
                f"{event.seconds:.1f} s{job}, at {event.where}; await, or declare the handler with "
                "`def` or isolate=True"
            )
        case events.LoopResumed():
            return f"worker {event.worker}: the event loop goes on after {event.seconds:.1f} s"
        case events.SequenceCreated():
            return f"{_sequence(event)} created"
        case events.SequenceCompleted():
            return f"{_sequence(event)} completed{_after(event.seconds)}"
        case events.SequenceFailed():
            return f"{_sequence(event)} failed{_after(event.seconds)}"
        case events.SequenceCancelled():
            return f"{_sequence(event)} cancelled"
        case events.JobCreated():
            return f"{_job(event)} created in queue {event.queue}"
        case events.JobBlocked():
            return f"{_job(event)} waits for {event.blockers} sequences"
        case events.JobUnblocked():
            return f"{_job(event)} waits no longer"
        case events.AttemptStarted():
            return f"{_job(event)} started after waiting {event.waited:.3f} s"
        case events.AttemptCompleted():
            return f"{_job(event)} ran for {event.seconds:.3f} s"
        case events.AttemptFailed():
            then = (
                "not to be tried again"
                if event.retry_in is None
                else f"to be tried again in {event.retry_in:.1f} s"
            )
            return (
                f"{_job(event)} failed on attempt {event.attempt} after {event.seconds:.3f} s, "
                f"{then}: {event.failure}"
            )
        case events.LeaseRenewed():
            return f"{_job(event)}: its lease was renewed"
        case events.LeaseLost():
            return f"{_job(event)} no longer held by this worker: {event.reason.replace('_', ' ')}"
        case events.JobCompleted():
            return f"{_job(event)} completed{_after(event.seconds)}"
        case events.JobDeadLettered():
            return f"{_job(event)} dead-lettered on attempt {event.attempt}: {event.failure}"
        case events.JobReaped():
            then = "not to be run again" if event.dead else "to be run again"
            if not event.charged:
                then += "; the store was away, so no loss is charged"
            return f"{_job(event)} lost by {event.worker or 'its worker'}, {then}"
        case events.JobRescheduled():
            how = "made due now" if event.worker is None else "rescheduled itself"
            return f"{_job(event)} {how}"
        case events.JobReleased():
            return f"{_job(event)} given back"
        case events.JobCancelled():
            return f"{_job(event)} cancelled"
        case events.JobRetried():
            return f"{_job(event)} to be run again"
        case events.JobsDeleted():
            return f"{event.count} jobs deleted"
        case events.JobsPruned():
            return f"{event.count} finished jobs pruned"
        case events.TypesUnattended():
            return f"no living worker runs {', '.join(event.types)}, and such jobs wait"
        case events.ScheduleFired():
            return (
                f"schedule {event.schedule} started {event.type} {event.job_id} for "
                f"{event.tick.isoformat()}, {event.seconds:.3f} s late"
            )
        case events.ScheduleSkipped():
            tick = event.tick.isoformat()
            ticks = f"the tick {tick}" if event.count == 1 else f"{event.count} ticks until {tick}"
            if event.reason == "overlap":
                return (
                    f"schedule {event.schedule} skipped {ticks}: the sequence that it started "
                    "last had not ended"
                )
            then = "; a later tick was fired" if event.replaced else ""
            return f"schedule {event.schedule} missed {ticks}: not fired in time{then}"
        case events.ScheduleFailed():
            return f"schedule {event.schedule} cannot be fired here: {event.error}"
        case events.SchedulesRefused():
            return (
                f"the declared schedules {', '.join(event.names)} are not stored: schedules of "
                "these names were put at run time; delete those, or rename the declared ones"
            )
        case events.ClaimRefused():
            return f"{_who(event.worker)} waits for a permit of queue {event.queue}: {event.limit}"
        case events.PermitsGranted():
            return (
                f"{_who(event.worker)} was granted {plural(len(event.waited), 'permit')} of queue "
                f"{event.queue} after {max(event.waited):.3f} s"
            )
        case events.QueueHeld():
            what = f"queue {event.queue}" + ("" if event.key is None else f", key {event.key},")
            return f"{what} is held until {event.until.isoformat()} by {event.type} {event.job_id}"
        case _:
            assert_never(event)


def _job(event: events.JobEvent | events.JobUnblocked) -> str:
    return f"{event.type} {event.job_id}"


def _sequence(event: events.SequenceEvent) -> str:
    return f"sequence {event.type} {event.sequence_id}"


def _who(worker: str | None) -> str:
    return "client" if worker is None else f"worker {worker}"


def _after(seconds: float | None) -> str:
    return "" if seconds is None else f" {seconds:.3f} s after it was created"
