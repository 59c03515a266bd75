"""A schedule in the terminal, in full."""

from __future__ import annotations

from datetime import datetime

import click

from headway.cli.job_text import INDENT, json_text, moment_now, print_explanation
from headway.cli.output import in_colour, print_fields, tell
from headway.cli.safe_text import harmless
from headway.domain.schedules.schedule_views import (
    ScheduleDetail,
    ScheduleExplanation,
    ScheduleRunView,
)
from headway.domain.text import ago, moment, moment_in, span

ALL_WORKERS = 5
"""Workers that are named; of more, the number."""


def print_schedule(detail: ScheduleDetail) -> None:
    schedule, job = detail.schedule, detail.job
    print_fields(
        [
            ("name", schedule.name),
            ("state", schedule.state),
            ("why", detail.explanation.sentence),
            ("timetable", schedule.timetable),
            ("origin", schedule.origin),
            ("paused", _when(schedule.paused_at)),
            ("next", _next(detail)),
            ("then", _then(detail)),
            ("type", job.type),
            ("queue", job.queue),
            ("priority", job.priority or None),
            ("attempts", None if job.max_attempts is None else f"at most {job.max_attempts}"),
            ("timeout", None if job.timeout is None else span(job.timeout)),
            ("input", json_text(job.input)),
            ("overlap", detail.overlap),
            ("catch up", detail.catch_up),
            ("jitter", span(detail.jitter) if detail.jitter else None),
            ("fired", f"{schedule.fired:,}"),
            ("skipped", f"{schedule.skipped:,}"),
            ("created", _when(detail.created_at)),
            ("changed", _when(detail.changed_at)),
            ("fired by", _workers(detail.workers)),
        ]
    )
    if detail.runs:
        click.echo()
        click.echo(click.style("last ticks", bold=True))
    for run in detail.runs:
        click.echo(f"{INDENT}{harmless(moment_in(run.tick, detail.tz))}  {_outcome(run)}")


def print_schedule_explanation(explanation: ScheduleExplanation) -> None:
    """Why the schedule starts no job, and why the job that it waits for has not ended; below it,
    the blockers of that job."""
    tell(explanation.sentence)
    if explanation.because is not None:
        for blocker in explanation.because.because:
            print_explanation(blocker, 1)


def _when(value: datetime | None) -> str | None:
    return None if value is None else f"{moment(value)} ({ago(value, moment_now())})"


def _next(detail: ScheduleDetail) -> str | None:
    tick = detail.schedule.next_at
    if tick is None:
        return None
    left = (tick - moment_now()).total_seconds()
    when = f"in {span(left)}" if left > 0 else f"{span(-left)} ago"
    return f"{moment_in(tick, detail.tz)}, {when}"


def _then(detail: ScheduleDetail) -> str | None:
    ticks = [tick for tick in detail.next_ticks if tick != detail.schedule.next_at]
    return ", ".join(moment_in(tick, detail.tz) for tick in ticks) or None


def _workers(ids: list[str]) -> str:
    if len(ids) > ALL_WORKERS:
        return f"{len(ids)} workers"
    return ", ".join(ids) or "no living worker"


def _outcome(run: ScheduleRunView) -> str:
    if run.skipped is not None:
        return f"{run.outcome}: {run.skipped}"
    by_hand = "  triggered by hand" if run.triggered else ""
    return f"{in_colour(run.outcome)}  {harmless(run.sequence_id or '')}{by_hand}"
