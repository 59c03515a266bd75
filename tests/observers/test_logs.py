"""Events as log lines."""

from __future__ import annotations

import logging
from typing import get_args

import pytest

from headway.domain import events
from headway.domain.failure import Failure
from headway.observers.logs import LogObserver, line

BOOM = Failure("ValueError", "boom", "Traceback …")
LINES: list[tuple[events.Event, int, str]] = [
    (
        events.WorkerStarted("w", ("a", "b"), ("x",)),
        logging.INFO,
        "worker w started: 1 job types from a, b",
    ),
    (events.WorkerStopping("w"), logging.INFO, "worker w is stopping"),
    (events.WorkerStopped("w"), logging.INFO, "worker w stopped"),
    (
        events.WorkerTroubled("w", "fetcher", "OSError: no"),
        logging.WARNING,
        "worker w: fetcher failed and tries again: OSError: no",
    ),
    (events.WorkerRecovered("w", "fetcher"), logging.INFO, "worker w: fetcher works again"),
    (events.JobCreated("1", "x", "a", "1"), logging.DEBUG, "x 1 created in queue a"),
    (
        events.AttemptStarted("1", "x", "a", "w", 1, 0.25),
        logging.DEBUG,
        "x 1 started after waiting 0.250 s",
    ),
    (
        events.AttemptFailed("1", "x", "a", "w", 1, 0.5, BOOM, 2.0),
        logging.WARNING,
        "x 1 failed after 0.500 s, to be tried again in 2.0 s: ValueError: boom",
    ),
    (
        events.AttemptFailed("1", "x", "a", "w", 1, 0.5, BOOM, None),
        logging.ERROR,
        "x 1 failed after 0.500 s, dead-lettered: ValueError: boom",
    ),
    (events.JobCompleted("1", "x", "a", "w", 1, 0.5), logging.DEBUG, "x 1 completed in 0.500 s"),
    (events.JobRescheduled("1", "x", "a", "w"), logging.DEBUG, "x 1 rescheduled itself"),
    (events.JobReleased("1", "x", "a", "w"), logging.DEBUG, "x 1 given back"),
    (
        events.JobReaped("1", "x", "a", "w", 1, dead=False),
        logging.WARNING,
        "x 1 lost by w, to be run again",
    ),
    (
        events.JobReaped("1", "x", "a", None, 1, dead=True),
        logging.ERROR,
        "x 1 lost by its worker, dead-lettered",
    ),
    (
        events.LeaseLost("1", "x", "a", "w", "taken_by_another_worker"),
        logging.WARNING,
        "x 1 no longer ours: taken by another worker",
    ),
    (events.JobsPruned("w", 3), logging.DEBUG, "3 finished jobs pruned"),
    (
        events.TypesUnattended(("x", "y")),
        logging.WARNING,
        "no living worker runs x, y, and such jobs wait",
    ),
]


def test_every_event_has_its_line() -> None:
    assert {type(event) for event, _, _ in LINES} == set(get_args(events.Event))


@pytest.mark.parametrize(("event", "level", "text"), LINES)
def test_lines(
    event: events.Event, level: int, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "headway"):
        LogObserver().observe(event)
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (level, text)
    assert line(event) == text
