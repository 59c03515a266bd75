"""Checks of schedules: whether workers fire them, and whether their jobs end before the next."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import timedelta

from headway.cli.doctor.findings import fail, ok, warn
from headway.cli.job_text import moment_now
from headway.cli.json_results import Diagnosis
from headway.cli.target import command_line
from headway.domain.queries import MAX_PAGE, WorkerRecord
from headway.domain.schedules.schedule_views import ScheduleOrigin, ScheduleState, ScheduleSummary
from headway.domain.text import plural
from headway.ports.admin import Questions

EXAMINED = 10_000
"""Schedules that are looked at."""
HISTORIES = 100
"""Schedules whose last ticks are looked at."""
ALWAYS = 5
"""Ticks in a row that were skipped."""
LONG_PAUSE = timedelta(days=7)
NAMED = 5
"""Names in a sentence."""


async def examine_schedules(questions: Questions) -> list[Diagnosis]:
    schedules, complete = await _read(questions)
    if not schedules:
        return [ok("schedules", "none")]
    workers = [each.worker for each in await questions.workers() if each.alive]
    firing = [each for each in workers if each.schedules is not None]
    found = [
        *(_stopped(schedules) if firing else _fired_by_nobody(schedules, workers)),
        *_taken(schedules, firing),
        *_paused(schedules),
        *(await _overlapping(questions, schedules)),
    ]
    if not found:
        found.append(ok("schedules", f"{plural(len(schedules), 'schedule')}, fired on time"))
    if firing and len(firing) < len(workers):
        idle = f"{len(workers) - len(firing)} of {len(workers)} living workers fire none"
        why = "they run with --no-schedules, or an earlier version of Headway"
        found.append(ok("schedules", f"{idle}: {why}"))
    if not complete:
        found.append(ok("schedules", f"the first {EXAMINED:,} by name were examined, no others"))
    return found


async def _read(questions: Questions) -> tuple[list[ScheduleSummary], bool]:
    """Schedules by name, and whether these are all."""
    found: list[ScheduleSummary] = []
    cursor: str | None = None
    while len(found) < EXAMINED:
        page = await questions.schedules(cursor=cursor, limit=MAX_PAGE)
        found += page.schedules
        cursor = page.cursor
        if cursor is None:
            return found, True
    return found, False


def _fired_by_nobody(
    schedules: Sequence[ScheduleSummary], workers: Sequence[WorkerRecord]
) -> list[Diagnosis]:
    active = [each for each in schedules if each.state is not ScheduleState.PAUSED]
    if not active:
        return []
    late = any(each.state is ScheduleState.LATE for each in active)
    who = "no worker is alive"
    if workers:
        who = "all living workers run with --no-schedules, or an earlier version of Headway"
    return [
        (fail if late else warn)(
            "schedules",
            f"{plural(len(active), 'schedule')} cannot be fired: {who}",
            f"Run: {command_line('worker', runs_code=True)}",
        )
    ]


def _stopped(schedules: Sequence[ScheduleSummary]) -> list[Diagnosis]:
    """Where workers fire schedules: those that they do not fire."""
    found: list[Diagnosis] = []
    if late := [each.name for each in schedules if each.state is ScheduleState.LATE]:
        found.append(
            fail(
                "schedules",
                f"late by more than a minute: {_named(late)}",
                f"See why with: {_command('why', late)}",
            )
        )
    if orphaned := [each.name for each in schedules if each.state is ScheduleState.ORPHANED]:
        found.append(
            warn(
                "schedules",
                f"declared in code that no living worker has, so not fired: {_named(orphaned)}",
                "Start a worker with that code, or delete what is no longer needed: "
                f"{_command('schedules delete', orphaned)}",
            )
        )
    return found


def _taken(
    schedules: Sequence[ScheduleSummary], workers: Sequence[WorkerRecord]
) -> list[Diagnosis]:
    declared = {name for worker in workers for name in worker.schedules or ()}
    taken = [
        each.name
        for each in schedules
        if each.origin is ScheduleOrigin.PUT and each.name in declared
    ]
    if not taken:
        return []
    return [
        warn(
            "schedules",
            f"declared in code, but put at run time under the same name: {_named(taken)}",
            "The declaration has no effect. Rename it, or delete the other: "
            f"{_command('schedules delete', taken)}",
        )
    ]


def _paused(schedules: Sequence[ScheduleSummary]) -> list[Diagnosis]:
    since = moment_now() - LONG_PAUSE
    paused = [
        each.name for each in schedules if each.paused_at is not None and each.paused_at < since
    ]
    if not paused:
        return []
    return [
        warn(
            "schedules",
            f"paused for more than {LONG_PAUSE.days} days: {_named(paused)}",
            f"If that was forgotten, run: {_command('schedules resume', paused)}",
        )
    ]


async def _overlapping(
    questions: Questions, schedules: Sequence[ScheduleSummary]
) -> list[Diagnosis]:
    suspects = [
        each.name
        for each in schedules
        if each.skipped >= ALWAYS and each.state is not ScheduleState.PAUSED
    ]
    overlapping: list[str] = []
    for name in suspects[:HISTORIES]:
        runs = (await questions.schedule(name)).runs[:ALWAYS]
        if len(runs) == ALWAYS and all(run.skipped == "overlap" for run in runs):
            overlapping.append(name)
    if not overlapping:
        return []
    return [
        warn(
            "schedules",
            f"the last {ALWAYS} ticks or more were skipped, because the job of an earlier one has "
            f"not ended: {_named(overlapping)}",
            f"See why it does not end with: {_command('why', overlapping)}",
        )
    ]


def _named(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _command(words: str, names: Sequence[str]) -> str:
    """The command for the first of these names."""
    return command_line(f"{words} {shlex.quote(names[0])}")
