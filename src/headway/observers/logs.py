"""Events as log lines: one readable line each, on the standard logging module."""

from __future__ import annotations

import logging
from typing import assert_never

from headway.domain import events
from headway.domain.events import Event


class LogObserver:
    """Writes each event to a logger; what needs someone's attention at WARNING or ERROR."""

    def __init__(self, logger: logging.Logger | None = None) -> None:
        self._logger = logger or logging.getLogger("headway")

    @property
    def every_job(self) -> bool:
        return self._logger.isEnabledFor(logging.DEBUG)

    def observe(self, event: Event) -> None:
        level = level_of(event)
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s", line(event))


def level_of(event: Event) -> int:
    match event:
        case events.AttemptFailed():
            return logging.ERROR if event.retry_in is None else logging.WARNING
        case events.JobReaped():
            return logging.ERROR if event.dead else logging.WARNING
        case events.WorkerTroubled() | events.LeaseLost() | events.TypesUnattended():
            return logging.WARNING
        case (
            events.WorkerStarted()
            | events.WorkerStopping()
            | events.WorkerStopped()
            | events.WorkerRecovered()
        ):
            return logging.INFO
        case _:
            return logging.DEBUG


def line(event: Event) -> str:
    """The event in one line."""
    match event:
        case events.WorkerStarted():
            queues = ", ".join(event.queues)
            return f"worker {event.worker} started: {len(event.types)} job types from {queues}"
        case events.WorkerStopping():
            return f"worker {event.worker} is stopping"
        case events.WorkerStopped():
            return f"worker {event.worker} stopped"
        case events.WorkerTroubled():
            return f"worker {event.worker}: {event.part} failed and tries again: {event.error}"
        case events.WorkerRecovered():
            return f"worker {event.worker}: {event.part} works again"
        case events.JobCreated():
            return f"{_job(event)} created in queue {event.queue}"
        case events.AttemptStarted():
            return f"{_job(event)} started after waiting {event.waited:.3f} s"
        case events.AttemptFailed():
            then = (
                "dead-lettered"
                if event.retry_in is None
                else f"to be tried again in {event.retry_in:.1f} s"
            )
            return f"{_job(event)} failed after {event.seconds:.3f} s, {then}: {event.failure}"
        case events.JobCompleted():
            return f"{_job(event)} completed in {event.seconds:.3f} s"
        case events.JobRescheduled():
            return f"{_job(event)} rescheduled itself"
        case events.JobReleased():
            return f"{_job(event)} given back"
        case events.JobReaped():
            then = "dead-lettered" if event.dead else "to be run again"
            return f"{_job(event)} lost by {event.worker or 'its worker'}, {then}"
        case events.LeaseLost():
            return f"{_job(event)} no longer ours: {event.reason.replace('_', ' ')}"
        case events.JobsPruned():
            return f"{event.count} finished jobs pruned"
        case events.TypesUnattended():
            return f"no living worker runs {', '.join(event.types)}, and such jobs wait"
        case _:
            assert_never(event)


def _job(
    event: events.JobCreated
    | events.AttemptStarted
    | events.AttemptFailed
    | events.JobCompleted
    | events.JobRescheduled
    | events.JobReleased
    | events.JobReaped
    | events.LeaseLost,
) -> str:
    return f"{event.type} {event.job_id}"
