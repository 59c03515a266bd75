"""`headway why`: why one job is not running, or one schedule starts no job."""

from __future__ import annotations

import click

from headway.app import Headway
from headway.cli.commands.schedules_show import print_schedule_explanation
from headway.cli.errors import Exit, Failed
from headway.cli.job_text import print_explanation
from headway.cli.output import printed_by
from headway.cli.session import Session, in_session
from headway.cli.target import DashboardUrl, command_line, target_option
from headway.domain.schedules.schedule_views import ScheduleExplanation
from headway.domain.validation import check_id_or_ending, is_id
from headway.domain.views import Explanation
from headway.errors import InvalidName, InvalidRequest, JobNotFound, ScheduleNotFound


def _print(explanation: Explanation | ScheduleExplanation) -> None:
    if isinstance(explanation, ScheduleExplanation):
        print_schedule_explanation(explanation)
    else:
        print_explanation(explanation)


@click.command()
@click.argument("id", metavar="ID|NAME")
@target_option
@printed_by(_print)
def why(id: str, target: Headway | DashboardUrl) -> Explanation | ScheduleExplanation:
    """Say in one sentence why a job is not running, or what it does.

    NAME is that of a schedule: says why it starts no job now, or when it will.
    """
    return in_session(target, lambda session: _explain(session, id))


async def _explain(session: Session, named: str) -> Explanation | ScheduleExplanation:
    """A name may look like the ending of an id, never like a whole one."""
    if is_id(named):
        return await session.questions.why(named)
    try:
        return await session.questions.explain_schedule(named)
    except (InvalidRequest, ScheduleNotFound):
        pass
    except Failed as error:
        if error.exit_code != Exit.NOT_FOUND:
            raise
    try:
        check_id_or_ending(named)
    except InvalidName:
        raise Failed(
            f"there is no schedule {named!r}, and it is no id of a job; "
            f"{command_line('schedules list')} shows all schedules",
            Exit.NOT_FOUND,
        ) from None
    try:
        return await session.questions.why(named)
    except JobNotFound:
        raise _neither(named) from None
    except Failed as error:
        raise (_neither(named) if error.exit_code == Exit.NOT_FOUND else error) from None


def _neither(named: str) -> Failed:
    return Failed(
        f"there is neither a schedule {named!r} nor a job whose id ends so", Exit.NOT_FOUND
    )
