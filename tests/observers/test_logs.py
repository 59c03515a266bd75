"""Events as log lines."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import get_args

import pytest

from headway.domain import events
from headway.errors import Failure
from headway.observers.logs import LogObserver, fields, line

BOOM = Failure("ValueError", "boom", "Traceback …\n")
JOB = ("1", "x", "a", "1")
ATTEMPT = (*JOB, "w", 1, 2, None)
TICK = datetime(2030, 1, 1, 2, 30, tzinfo=UTC)
LINES: list[tuple[events.Event, int, str]] = [
    (
        events.WorkerStarted("w", ("a", "b"), ("x",), 5),
        logging.INFO,
        "worker w started: 1 job type from a, b",
    ),
    (
        events.WorkerStarted("w", ("a",), ("x", "y"), 5, ("nightly",)),
        logging.INFO,
        "worker w started: 2 job types from a; fires 1 declared schedule",
    ),
    (events.WorkerStopping("w"), logging.INFO, "worker w is stopping"),
    (events.WorkerStopped("w"), logging.INFO, "worker w stopped"),
    (
        events.WorkerTroubled("w", "fetcher", "OSError: no"),
        logging.WARNING,
        "worker w: fetcher failed and tries again: OSError: no",
    ),
    (events.WorkerRecovered("w", "fetcher"), logging.INFO, "worker w: fetcher works again"),
    (
        events.StoreFailed("w", "fetcher", "OSError: no"),
        logging.DEBUG,
        "worker w: the store failed the fetcher: OSError: no",
    ),
    (
        events.NotifierFailed(None, "OSError: no"),
        logging.DEBUG,
        "client: the notifier failed: OSError: no",
    ),
    (
        events.LoopBlocked("w", 0.62, "shop.py:7 in charge", "1", "x"),
        logging.WARNING,
        (
            "worker w: the event loop has been blocked for 0.6 s by x 1, at shop.py:7 in charge; "
            "await, or declare the handler with `def` or isolate=True"
        ),
    ),
    (
        events.LoopResumed("w", 2.04, "shop.py:7 in charge", "x"),
        logging.INFO,
        "worker w: the event loop goes on after 2.0 s",
    ),
    (events.SequenceCreated("1", "x", "a"), logging.DEBUG, "sequence x 1 created"),
    (
        events.SequenceCompleted("1", "x", "a", 1.5),
        logging.DEBUG,
        "sequence x 1 completed 1.500 s after it was created",
    ),
    (events.SequenceFailed("1", "x", "a", None), logging.DEBUG, "sequence x 1 failed"),
    (events.SequenceCancelled("1", "x", "a"), logging.DEBUG, "sequence x 1 cancelled"),
    (events.JobCreated(*JOB), logging.DEBUG, "x 1 created in queue a"),
    (events.JobBlocked(*JOB, 2), logging.DEBUG, "x 1 waits for 2 sequences"),
    (events.JobUnblocked("1", "x", "a"), logging.DEBUG, "x 1 waits no longer"),
    (
        events.AttemptStarted(*ATTEMPT, 0.25),
        logging.DEBUG,
        "x 1 started after waiting 0.250 s",
    ),
    (events.AttemptCompleted(*ATTEMPT, 0.25), logging.DEBUG, "x 1 ran for 0.250 s"),
    (
        events.AttemptFailed(*ATTEMPT, 0.5, BOOM, 2.0),
        logging.WARNING,
        "x 1 failed on attempt 2 after 0.500 s, to be tried again in 2.0 s: ValueError: boom",
    ),
    (
        events.AttemptFailed(*ATTEMPT, 0.5, BOOM, None),
        logging.DEBUG,
        "x 1 failed on attempt 2 after 0.500 s, not to be tried again: ValueError: boom",
    ),
    (events.LeaseRenewed(*JOB, "w", 1), logging.DEBUG, "x 1: its lease was renewed"),
    (
        events.LeaseLost(*JOB, "w", 1, "lease_expired"),
        logging.WARNING,
        "x 1 no longer held by this worker: lease expired",
    ),
    (
        events.TakenByAnotherWorker(*JOB, "w", 1, "taken_by_another_worker"),
        logging.WARNING,
        "x 1 no longer held by this worker: taken by another worker",
    ),
    (
        events.AlreadyCompleted(*JOB, "w", 1, "already_completed"),
        logging.WARNING,
        "x 1 no longer held by this worker: already completed",
    ),
    (
        events.JobCompleted(*JOB, "w", 1, 0.5),
        logging.DEBUG,
        "x 1 completed 0.500 s after it was created",
    ),
    (
        events.JobDeadLettered(*JOB, BOOM, 2),
        logging.ERROR,
        "x 1 dead-lettered on attempt 2: ValueError: boom",
    ),
    (
        events.JobDeadLettered(*JOB, Failure("LeaseLost", "w is gone"), 3),
        logging.ERROR,
        "x 1 dead-lettered on attempt 3: LeaseLost: w is gone",
    ),
    (
        events.JobReaped(*JOB, "w", 1, dead=False),
        logging.WARNING,
        "x 1 lost by w, to be run again",
    ),
    (
        events.JobReaped(*JOB, None, 1, dead=True),
        logging.WARNING,
        "x 1 lost by its worker, not to be run again",
    ),
    (events.JobRescheduled(*JOB, "w"), logging.DEBUG, "x 1 rescheduled itself"),
    (events.JobRescheduled(*JOB, None), logging.DEBUG, "x 1 made due now"),
    (events.JobReleased(*JOB, "w"), logging.DEBUG, "x 1 given back"),
    (events.JobCancelled(*JOB), logging.DEBUG, "x 1 cancelled"),
    (events.JobRetried(*JOB), logging.DEBUG, "x 1 to be run again"),
    (events.JobsDeleted(2), logging.DEBUG, "2 jobs deleted"),
    (events.JobsPruned("w", 3), logging.DEBUG, "3 finished jobs pruned"),
    (
        events.TypesUnattended(("x", "y")),
        logging.WARNING,
        "no living worker runs x, y, and such jobs wait",
    ),
    (
        events.ScheduleFired("s", "x", "a", "1", TICK, 0.25),
        logging.DEBUG,
        "schedule s started x 1 for 2030-01-01T02:30:00+00:00, 0.250 s late",
    ),
    (
        events.ScheduleSkipped("s", "x", "a", TICK, "overlap", 1, replaced=False),
        logging.INFO,
        (
            "schedule s skipped the tick 2030-01-01T02:30:00+00:00: the sequence that it started "
            "last had not ended"
        ),
    ),
    (
        events.ScheduleSkipped("s", "x", "a", TICK, "missed", 1, replaced=False),
        logging.WARNING,
        "schedule s missed the tick 2030-01-01T02:30:00+00:00: not fired in time",
    ),
    (
        events.ScheduleSkipped("s", "x", "a", TICK, "missed", 3, replaced=True),
        logging.INFO,
        (
            "schedule s missed 3 ticks until 2030-01-01T02:30:00+00:00: not fired in time; a later "
            "tick was fired"
        ),
    ),
    (
        events.ScheduleFailed("s", "x", "a", "there is no time zone 'Mars'"),
        logging.WARNING,
        "schedule s cannot be fired here: there is no time zone 'Mars'",
    ),
    (
        events.ClaimRefused("w", "a", "running", None),
        logging.DEBUG,
        "worker w waits for a permit of queue a: running",
    ),
    (
        events.ClaimRefused("w", "a", "rate", 1.5),
        logging.DEBUG,
        "worker w waits for a permit of queue a: rate",
    ),
    (
        events.PermitsGranted("w", "a", (0.5, 0.25)),
        logging.DEBUG,
        "worker w was granted 2 permits of queue a after 0.500 s",
    ),
    (
        events.QueueHeld("a", None, TICK, "1", "x"),
        logging.INFO,
        "queue a is held until 2030-01-01T02:30:00+00:00 by x 1",
    ),
    (
        events.QueueHeld("a", "tenant-7", TICK, "1", "x"),
        logging.INFO,
        "queue a, key tenant-7, is held until 2030-01-01T02:30:00+00:00 by x 1",
    ),
    (
        events.SchedulesRefused(("s", "t")),
        logging.WARNING,
        (
            "the declared schedules s, t are not stored: schedules of these names were put at run "
            "time; delete those, or rename the declared ones"
        ),
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
    for name, value in fields(event).items():
        assert getattr(record, name) == value


def test_the_words_of_an_error_begin_no_line_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    said = Failure("ValueError", "boom\nERROR all is lost\x1b[2J")
    LogObserver().observe(events.JobDeadLettered(*JOB, said, 2))
    (record,) = caplog.records
    assert record.getMessage().endswith(r"ValueError: boom\nERROR all is lost\x1b[2J")
    assert record.__dict__["error"] == said.message


def test_the_facts_are_fields_and_the_traceback_is_where_formatters_look(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failed = events.AttemptFailed(*ATTEMPT, 0.5, BOOM, 2.0, ValueError("boom"))
    LogObserver().observe(failed)
    LogObserver().observe(events.JobDeadLettered(*JOB, BOOM, 2))
    assert [record.exc_text for record in caplog.records] == ["Traceback …"] * 2
    assert fields(failed) == {
        "event": "AttemptFailed",
        "job_id": "1",
        "job_type": "x",
        "queue": "a",
        "sequence_id": "1",
        "worker": "w",
        "version": 1,
        "attempt": 2,
        "seconds": 0.5,
        "error_type": "ValueError",
        "error": "boom",
        "retry_in": 2.0,
    }
    assert fields(events.SequenceCreated("1", "x", "a"))["sequence_type"] == "x"


def test_without_debug_it_does_not_need_to_hear_of_every_job() -> None:
    logger = logging.getLogger("quiet")
    logger.setLevel(logging.INFO)
    assert not LogObserver(logger).every_job
    logger.setLevel(logging.DEBUG)
    assert LogObserver(logger).every_job
