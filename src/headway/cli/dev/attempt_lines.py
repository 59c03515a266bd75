"""One line per attempt: time, outcome, type, end of the id, duration."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime

import click

from headway.cli.apps import code_line
from headway.cli.output import colours_wanted
from headway.cli.safe_text import harmless
from headway.domain import events
from headway.domain.events import Event
from headway.domain.text import span
from headway.observers.logs import level_of, line

A_SECOND = 100
"""Completed jobs printed one by one in a second; of more, only the number."""
LONGEST_ERROR = 300
COLOURS = {"done": "green", "retry": "yellow", "failed": "red", "lost": "red", "later": "blue"}


class LineObserver:
    """Prints the outcome of attempts. Safe to call from any thread."""

    every_job = True

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._second = 0
        self._told = 0
        self._colours = colours_wanted()

    def observe(self, event: Event) -> None:
        match event:
            case events.AttemptCompleted():
                self._completed(event)
            case events.AttemptFailed() if event.retry_in is not None:
                self._tell(
                    "retry",
                    event,
                    f"{_after(event)}, again in {span(event.retry_in)}: {_error(event)}",
                )
            case events.AttemptFailed():
                self._tell("failed", event, f"{_after(event)}: {_error(event)}")
            case events.JobReaped():
                then = "dead-lettered" if event.dead else "to be run again"
                self._tell("lost", event, f"by {event.worker or 'its worker'}, {then}")
            case events.LeaseLost():
                self._tell("lost", event, event.reason.replace("_", " "))
            case events.JobRescheduled() if event.worker is not None:
                self._tell("later", event, "rescheduled itself")
            case events.JobDeadLettered():
                pass  # told when its last attempt failed, or was lost
            case _:
                if level_of(event) >= logging.WARNING:
                    self._write(f"{_clock()}  {harmless(line(event))}")

    def close(self) -> None:
        with self._lock:
            self._sum_up()

    def _completed(self, event: events.AttemptCompleted) -> None:
        second = int(self._clock())
        with self._lock:
            if second != self._second:
                self._sum_up()
                self._second = second
            self._told += 1
            if self._told > A_SECOND:
                return
        self._tell("done", event, span(event.seconds))

    def _sum_up(self) -> None:
        if self._told > A_SECOND:
            self._write(f"{_clock()}  … and {self._told - A_SECOND:,} more done")
        self._told = 0

    def _tell(
        self,
        outcome: str,
        event: events.AttemptCompleted
        | events.AttemptFailed
        | events.JobReaped
        | events.LeaseLost
        | events.JobRescheduled,
        how: str,
    ) -> None:
        word = click.style(f"{outcome:<6}", fg=COLOURS[outcome])
        name = f"{harmless(event.type):<20}"
        self._write(f"{_clock()}  {word}  {name}  {event.job_id[-8:]}  {harmless(how)}")

    def _write(self, text: str) -> None:
        click.echo(text, color=self._colours)
        sys.stdout.flush()


def _clock() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")


def _after(event: events.AttemptFailed) -> str:
    return f"after {span(event.seconds)}"


def _error(event: events.AttemptFailed) -> str:
    """`shop.py:14: ValueError: …`"""
    line = code_line(event.failure.traceback)
    error = harmless(str(event.failure), longest=LONGEST_ERROR)
    return error if line is None else f"{line}: {error}"
