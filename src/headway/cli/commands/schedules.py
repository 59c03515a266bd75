"""`headway schedules`: list, show, pause, resume, trigger, backfill and delete schedules."""

from __future__ import annotations

from datetime import datetime
from functools import partial

import click

from headway.app import Headway
from headway.cli.actions import confirm
from headway.cli.commands.schedules_show import print_schedule
from headway.cli.job_text import moment_now
from headway.cli.lists import print_list, read_list
from headway.cli.output import Column, printed_by, say, tell, wide_option
from headway.cli.session import Session, in_session
from headway.cli.target import DashboardUrl, target_option
from headway.cli.times import moment
from headway.domain.schedules.schedule import MOST_BACKFILLED
from headway.domain.schedules.schedule_views import (
    Backfill,
    BackfillPlan,
    ScheduleChange,
    ScheduleDetail,
    SchedulePage,
    ScheduleState,
)
from headway.domain.text import ago, plural
from headway.domain.text import moment as moment_text
from headway.domain.views import StartedJob

COLUMNS = (
    Column("NAME", shrinks=True),
    Column("TIMETABLE", shrinks=True),
    Column("TYPE", shrinks=True, spare=3),
    Column("STATE"),
    Column("NEXT"),
    Column("LAST", spare=2),
    Column("OUTCOME"),
    Column("FIRED", right=True, spare=4),
    Column("SKIPPED", right=True, spare=1),
    Column("ORIGIN", spare=5),
)


@click.group()
def schedules() -> None:
    """List schedules, show one, pause, resume, trigger, backfill or delete schedules."""


def _print_schedules(page: SchedulePage) -> None:
    now = moment_now()
    rows = [
        (
            each.name,
            each.timetable,
            each.type,
            each.state,
            None if each.next_at is None else ago(each.next_at, now),
            None if each.last is None else ago(each.last.at, now),
            None if each.last is None else each.last.outcome,
            f"{each.fired:,}",
            f"{each.skipped:,}",
            each.origin,
        )
        for each in page.schedules
    ]
    given = click.get_current_context().params
    filtered = given["words"] or given["state"] or given["cursor"]
    empty = "no schedules match" if filtered else "there are no schedules"
    print_list(COLUMNS, rows, empty, page.cursor)


@schedules.command("list")
@click.argument("words", nargs=-1, metavar="[TEXT]...")
@target_option
@click.option(
    "--state", type=click.Choice([each.value for each in ScheduleState]), help="Only in this state."
)
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many."
)
@click.option("--cursor", help="Continue a list; the cursor is printed at its end.")
@wide_option
@printed_by(_print_schedules)
def list_(
    words: tuple[str, ...],
    target: Headway | DashboardUrl,
    state: str | None,
    limit: int,
    cursor: str | None,
) -> SchedulePage:
    """List schedules by name.

    Each TEXT is a part of the name, the job type or the queue.
    """
    wanted = None if state is None else ScheduleState(state)

    async def run(session: Session) -> SchedulePage:
        ask = partial(session.questions.schedules, search=" ".join(words), state=wanted)
        return await read_list(ask, cursor, limit)

    return in_session(target, run)


@schedules.command()
@click.argument("name")
@target_option
@printed_by(print_schedule)
def show(name: str, target: Headway | DashboardUrl) -> ScheduleDetail:
    """Show everything about one schedule: its next and last ticks, and why it starts no job."""
    return in_session(target, lambda session: session.questions.schedule(name))


def _print_changes(changes: list[ScheduleChange]) -> None:
    for each in changes:
        then = "" if each.next_at is None else f", next tick at {moment_text(each.next_at)}"
        if each.before == each.after:
            tell(f"{each.name} was {each.after} already{then}")
        else:
            verb = "resumed" if each.after == "active" else each.after
            tell(f"{each.name} {verb}{then}")


async def _known(session: Session, names: tuple[str, ...]) -> list[str]:
    """Each name once. One that no schedule has is an error, before anything is changed."""
    found = list(dict.fromkeys(names))
    for name in found:
        await session.questions.explain_schedule(name)
    return found


def _verb(name: str, help: str, *, paused: bool) -> None:
    """Add the command that pauses or resumes schedules."""

    @schedules.command(name, help=help)
    @click.argument("names", nargs=-1, required=True, metavar="NAME...")
    @target_option
    @printed_by(_print_changes)
    def _(names: tuple[str, ...], target: Headway | DashboardUrl) -> list[ScheduleChange]:
        async def run(session: Session) -> list[ScheduleChange]:
            actions = session.actions
            change = actions.pause_schedule if paused else actions.resume_schedule
            return [await change(each) for each in await _known(session, names)]

        return in_session(target, run)


_verb("pause", "Start no jobs at the ticks of these schedules; deploys leave them so.", paused=True)
_verb("resume", "Go on with the next tick; those of the pause are not caught up.", paused=False)


def _print_started(started: StartedJob) -> None:
    tell(started.id)


@schedules.command()
@click.argument("name")
@target_option
@printed_by(_print_started)
def trigger(name: str, target: Headway | DashboardUrl) -> StartedJob:
    """Start the job of a schedule now, besides its ticks; prints the id of the job.

    A paused schedule can be triggered, too.
    """
    return in_session(target, lambda session: session.actions.trigger_schedule(name))


def _print_backfill(done: Backfill) -> None:
    had = f"; {plural(done.existing, 'tick')} had a job already" if done.existing else ""
    tell(f"{plural(done.started, 'job')} started{had}")


@schedules.command()
@click.argument("name")
@click.option(
    "--since",
    type=moment,
    required=True,
    help="First tick: 2026-12-24T18:00+01:00; without an offset, in this machine's time zone.",
)
@click.option("--until", type=moment, help="Last tick, in the same form.  [default: now]")
@click.option(
    "--at-most",
    type=click.IntRange(min=1, max=MOST_BACKFILLED),
    help=f"Only the first ticks, so many.  [default: all, up to {MOST_BACKFILLED:,}]",
)
@target_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@printed_by(_print_backfill)
def backfill(
    name: str,
    since: datetime,
    until: datetime | None,
    at_most: int | None,
    target: Headway | DashboardUrl,
    yes: bool,
) -> Backfill:
    """Start a job for each tick of the past that has none.

    All of them start at once, whatever the schedule's overlap; their `scheduled_for` is the tick.
    """

    async def run(session: Session) -> Backfill:
        plan = await session.questions.plan_backfill(name, since, until=until, at_most=at_most)
        missing = plan.ticks - plan.existing
        if not missing or plan.last is None:
            say(f"{name} has no tick in this time that has no job")
            return Backfill(name=name, started=0, existing=plan.existing)
        confirm(
            f"start {plural(missing, 'job')} of {name} for {_ticks(plan)} in {session.store}",
            confirmed=yes,
        )
        # The ticks that were counted, also if another one has come meanwhile.
        return await session.actions.backfill_schedule(name, since, until=plan.last)

    return in_session(target, run)


def _ticks(plan: BackfillPlan) -> str:
    if plan.ticks == 1:
        return f"the tick of {moment_text(plan.first)}"
    had = f" ({plan.existing:,} of them have one)" if plan.existing else ""
    return (
        f"the {plural(plan.ticks, 'tick')} from {moment_text(plan.first)} to "
        f"{moment_text(plan.last)}{had}"
    )


@schedules.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@target_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@printed_by(_print_changes)
def delete(
    names: tuple[str, ...], target: Headway | DashboardUrl, yes: bool
) -> list[ScheduleChange]:
    """Delete schedules; their jobs stay.

    A schedule that is declared in code can be deleted when no living worker declares it any more.
    """

    async def run(session: Session) -> list[ScheduleChange]:
        known = await _known(session, names)
        sentence = f"delete {plural(len(known), 'schedule')} in {session.store}"
        confirm(f"{sentence}: {', '.join(known)}", confirmed=yes)
        return [await session.actions.delete_schedule(name) for name in known]

    return in_session(target, run)
