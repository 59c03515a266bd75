"""From a request to the definition of a schedule."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, TypedDict

from headway.domain.due_time import NOW
from headway.domain.request import AnyRequest
from headway.domain.schedules.catch_up import CatchUp
from headway.domain.schedules.schedule import Overlap, ScheduleDefinition, ScheduledJob
from headway.domain.schedules.timetable import Cron, Every, Timetable
from headway.domain.validation import check_kind, check_seconds
from headway.errors import InvalidOption, InvalidPayload, InvalidRequest
from headway.jobs.job_type import AnyType, JobType, TypeOptions
from headway.jobs.plan import check_startable


class ScheduleOptions(TypedDict, total=False):
    """Options of a schedule."""

    overlap: Overlap
    """What a tick does while the last sequence has not ended: `skip` (default), `allow`,
    `queue_one` or `cancel`."""
    catch_up: CatchUp
    """Which ticks run after a time without workers; by default the latest one of the last hour."""
    jitter: float | timedelta
    """Seconds by which jobs are spread."""
    key: str
    """The key of its jobs, for limits by key."""


def define_schedule(
    name: str,
    timetable: Timetable,
    request: AnyRequest,
    options: dict[str, Any],
    call: str = "app.schedule",
) -> ScheduleDefinition:
    """Check everything that a schedule consists of. Raises InvalidRequest or a subclass, which
    names the caller's `call`."""
    check_kind(f"the timetable of schedule {name!r}", timetable, Cron, Every)
    check_startable(request, f"{call}({name!r}, {timetable!r}, ")
    if request.needs:
        raise InvalidRequest(
            f"schedule {name!r} cannot start {request.type!r}, which waits for blockers: schedule "
            "a job that starts it with its blockers"
        )
    for what, given in (
        ("blockers", bool(request.blockers)),
        ("an id", request.id is not None),
        ("a due time", request.options.schedule != NOW),
        ("a deduplication key", request.options.dedup is not None),
    ):
        if given:
            raise InvalidRequest(
                f"the request of schedule {name!r} has {what}: each tick starts a job of its own "
                "at its own time, so leave that out"
            )
    for option in options:
        if option not in ScheduleOptions.__annotations__:
            known = ", ".join(ScheduleOptions.__annotations__)
            raise InvalidOption(f"there is no option {option!r}; there are {known}")
    key = options.pop("key", None)
    if key is not None:
        request = request.using(key=key)
    if "jitter" in options:
        options["jitter"] = check_seconds("jitter", options["jitter"], zero=True)
    chosen = request.options
    job = ScheduledJob(
        type=request.type,
        input=request.input,
        queue=chosen.queue,
        priority=chosen.priority,
        max_attempts=chosen.max_attempts,
        max_losses=chosen.max_losses,
        timeout=chosen.timeout,
        key=chosen.key,
    )
    return ScheduleDefinition(timetable=timetable, job=job, **options)


def refuse_schedule_options(type: str, options: Iterable[str]) -> None:
    """`@app.job` has the timetable of a schedule, and none of its options."""
    for option in options:
        if option in ScheduleOptions.__annotations__ and option not in TypeOptions.__annotations__:
            raise InvalidOption(
                f"@app.job has no option {option!r}: leave out `schedule=`, and write "
                f"`app.schedule({type!r}, Every(hours=1), {type}.request(...), {option}=...)` with "
                "your timetable"
            )


def schedule_of_type(type: AnyType, timetable: Timetable) -> ScheduleDefinition:
    """The schedule of `@app.job(schedule=…)`."""
    if not isinstance(type, JobType):
        raise InvalidRequest(
            f"job type {type.name!r} has entry=False and can only continue a sequence: a schedule "
            "cannot start it"
        )
    try:
        request = type.request()
    except InvalidPayload as error:
        raise InvalidRequest(
            f"job type {type.name!r} has arguments, and `schedule=` gives none: write "
            f"`app.schedule({type.name!r}, {timetable!r}, {type.name}.request(...))` instead"
        ) from error
    return define_schedule(type.name, timetable, request, {})
