"""`headway start`: starts a job."""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import datetime

import click
import msgspec

from headway.admin.json_answers import json_value
from headway.app import Headway
from headway.cli.errors import Exit, Failed
from headway.cli.job_text import moment_now
from headway.cli.json_results import StartResult
from headway.cli.output import json_option, print_json, say, tell
from headway.cli.safe_text import harmless_json
from headway.cli.session import Session, in_session
from headway.cli.target import DashboardUrl, target_option
from headway.cli.times import duration, moment
from headway.domain.job import JobRecord, JobState
from headway.domain.lifecycle import shown_state
from headway.domain.queries import JobFilter
from headway.domain.views import ShownState
from headway.errors import ResultError, ResultTimeout

LOOK_EVERY = 0.5
"""Seconds between two looks at a job of a dashboard."""


@click.command()
@click.argument("type")
@click.argument("arguments", metavar="[JSON]", default="{}")
@target_option
@click.option("--in", "delay", type=duration, help="Delay before it starts: 5m, 1h30m.")
@click.option("--at", type=moment, help="Time to start it at: 2026-12-24T18:00.")
@click.option("--key", help="Key for limits and turns: a tenant, a customer.")
@click.option(
    "--dedup", help="Deduplication key: starts nothing while a job with this key has not ended."
)
@click.option("--queue", help="Queue, instead of the type's.")
@click.option("--priority", type=int, help="Priority, instead of the type's; higher runs first.")
@click.option(
    "--wait", is_flag=True, help="Wait until its sequence has ended, and print its output."
)
@click.option("--timeout", type=duration, help="Longest time for --wait.  [default: for ever]")
@json_option
def start(
    type: str,
    arguments: str,
    target: Headway | DashboardUrl,
    delay: float | None,
    at: datetime | None,
    key: str | None,
    dedup: str | None,
    queue: str | None,
    priority: int | None,
    wait: bool,
    timeout: float | None,
    as_json: bool,
) -> None:
    """Start a job.

    TYPE is the job type's name, JSON its arguments: '{"order_id": 7}', or - for stdin. Prints the
    id; with --wait the output, and exits with 1 if the job failed or was cancelled, with 6 if it
    did not end in time.
    """
    if delay is not None and at is not None:
        raise click.UsageError("--in and --at say the same thing; give one of them")
    if timeout is not None and not wait:
        raise click.UsageError("--timeout is for --wait")
    if arguments == "-":
        arguments = sys.stdin.read()

    async def run(session: Session) -> StartResult:
        if session.app is not None and not list(session.app.registry):
            raise click.UsageError(
                "a database knows no job types: name the app (app.py, module:app) or a dashboard"
            )
        started = await session.actions.start(
            type,
            arguments,
            queue=queue,
            priority=priority,
            delay=delay,
            at=None if at is None else at.isoformat(),
            key=key,
            dedup=dedup,
        )
        id = started.id
        if not wait:
            return StartResult(id=id)
        if not as_json:
            say(f"started {id}")
        return _ended(id, await _wait(session, id, timeout))

    started = in_session(target, run)
    if as_json:
        print_json(msgspec.structs.replace(started, output=json_value(started.output)))
    elif not wait:
        tell(started.id)
    elif started.output is not None:
        click.echo(harmless_json(started.output))
    if started.error is not None:
        raise Failed(started.error)
    if started.state is ShownState.CANCELLED:
        raise Failed(f"sequence {started.id} was cancelled")


def _ended(id: str, job: JobRecord) -> StartResult:
    return StartResult(
        id=id,
        state=shown_state(job, moment_now()),
        output=job.output,
        error=str(job.failure) if job.state is JobState.FAILED else None,
    )


async def _wait(session: Session, id: str, timeout: float | None) -> JobRecord:
    """The last job of the sequence, once it has ended."""
    if session.app is not None:
        try:
            await session.app.sequence(id).result(timeout=timeout)
        except ResultTimeout:
            raise
        except ResultError:
            pass  # the job says how it ended
        return await session.app.current(id)
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        page = await session.questions.jobs(JobFilter(sequence_id=id), limit=1)
        if not page.jobs:
            raise Failed(f"sequence {id} is gone", Exit.NOT_FOUND)
        if page.jobs[0].state.terminal:
            return page.jobs[0]
        if deadline is not None and time.monotonic() >= deadline:
            raise ResultTimeout(id, timeout or 0, page.jobs[0].state)
        await asyncio.sleep(LOOK_EVERY)
