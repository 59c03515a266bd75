"""A job in the terminal: in a few words, and in full."""

from __future__ import annotations

from datetime import UTC, datetime

import click
import msgspec

from headway.cli.output import in_colour, print_fields, tell
from headway.cli.safe_text import harmless
from headway.domain.job import AttemptRecord, JobRecord, JobState
from headway.domain.text import ago, plural, span
from headway.domain.views import BlockerView, Explanation, JobDetail

INDENT = "  "


def moment_now() -> datetime:
    return datetime.now(UTC)


def note_on(job: JobRecord, now: datetime) -> str:
    """What matters most about a job in its state, in a few words."""
    match job.state:
        case JobState.BLOCKED:
            return f"waits for {plural(len(job.blockers), 'sequence')}"
        case JobState.PENDING if job.run_at > now:
            return f"runs in {span((job.run_at - now).total_seconds())}" + _after(job)
        case JobState.PENDING:
            return f"due for {span((now - job.run_at).total_seconds())}" + _after(job)
        case JobState.RUNNING:
            began = job.started_at or now
            return f"for {span((now - began).total_seconds())} on {job.worker or '?'}"
        case JobState.COMPLETED:
            return _took(job)
        case JobState.FAILED | JobState.CANCELLED:
            return "" if job.failure is None else str(job.failure)


def _after(job: JobRecord) -> str:
    return "" if job.failure is None else f", after {job.failure}"


def _took(job: JobRecord) -> str:
    if job.started_at is None or job.finished_at is None:
        return ""
    return f"took {span((job.finished_at - job.started_at).total_seconds())}"


def print_job(detail: JobDetail) -> None:
    job, now = detail.job, moment_now()
    lease = job.lease
    print_fields(
        [
            ("id", job.id),
            ("type", job.type),
            ("state", detail.shown),
            ("why", detail.explanation.sentence),
            ("queue", job.queue),
            ("priority", job.priority or None),
            ("created", when_text(job.created_at, now)),
            ("due", when_text(job.run_at, now)),
            ("started", when_text(job.started_at, now)),
            ("finished", when_text(job.finished_at, now)),
            ("ran for", _took(job).removeprefix("took ") or None),
            ("attempts", _of(job.attempts, job.max_attempts)),
            ("losses", _of(job.losses, job.max_losses) if job.losses else None),
            ("timeout", None if job.timeout is None else span(job.timeout)),
            ("worker", job.worker),
            (
                "lease",
                None
                if lease is None
                else f"version {lease.version}, {when_text(lease.until, now)}",
            ),
            ("progress", _progress(detail)),
            ("sequence", f"{job.sequence_id}, position {job.position} of {job.sequence_type}"),
            ("root", job.root_id if job.root_id != job.sequence_id else None),
            ("key", job.key),
            ("dedup", job.dedup_key),
            ("schedule", job.schedule),
            ("tick", when_text(job.scheduled_for, now)),
            ("input", json_text(job.input)),
            ("output", None if job.output is None else json_text(job.output)),
        ]
    )
    _print_related("waits for", detail.blockers)
    _print_related("waited for by", detail.dependents)
    for attempt in detail.attempts:
        _print_attempt(attempt, now)


def print_explanation(explanation: Explanation, depth: int = 0) -> None:
    """Why the job waits; why its blockers are not done, indented under it."""
    label = f"{INDENT * depth}{explanation.job_id}: " if depth else ""
    tell(f"{label}{explanation.sentence}")
    for reason in explanation.because:
        print_explanation(reason, depth + 1)


def _print_related(title: str, related: list[BlockerView]) -> None:
    if related:
        click.echo()
        click.echo(click.style(title, bold=True))
    for each in related:
        state = "deleted" if each.state is None else in_colour(each.state)
        named = f"{each.type or ''} {each.sequence_id}".lstrip()
        click.echo(f"{INDENT}{harmless(named)}  {state}")


def _print_attempt(attempt: AttemptRecord, now: datetime) -> None:
    failure = attempt.failure
    who = "" if attempt.worker is None else f" on {attempt.worker}"
    head = f"attempt {attempt.version} {attempt.outcome} {ago(attempt.finished_at, now)}{who}"
    click.echo()
    click.echo(click.style(harmless(head), bold=True))
    tell(f"{INDENT}{failure}")
    for line in failure.traceback.rstrip().splitlines():
        tell(f"{INDENT}{line}")


def when_text(when: datetime | None, now: datetime) -> str | None:
    if when is None:
        return None
    return f"{when.astimezone().isoformat(' ', 'seconds')} ({ago(when, now)})"


def _of(count: int, most: int | None) -> str:
    return f"{count} failed" + ("" if most is None else f" of at most {most}")


def _progress(detail: JobDetail) -> str | None:
    if detail.progress is None:
        return None
    return f"{detail.progress.fraction:.0%} {detail.progress.note}".rstrip()


def json_text(text: str) -> str:
    """JSON in compact form; other text as it is."""
    try:
        return msgspec.json.format(text, indent=0)
    except (msgspec.DecodeError, ValueError):
        return text
