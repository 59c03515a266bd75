"""Schedules: what code declares or users put, and what a store keeps of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Literal, get_args
from uuid import UUID

import msgspec
from msgspec import structs

from headway.domain.due_time import NOW, At
from headway.domain.job import (
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_MAX_LOSSES,
    DEFAULT_QUEUE,
    NewJob,
)
from headway.domain.schedules.catch_up import CatchUp
from headway.domain.schedules.timetable import (
    Cron,
    Timetable,
    decode_timetable,
    encode_timetable,
)
from headway.domain.text import moment
from headway.domain.validation import check_kind, check_seconds
from headway.errors import InvalidOption, InvalidRequest

Overlap = Literal["skip", "allow", "queue_one", "cancel"]
"""What a tick does while the sequence of the last tick has not ended: `skip` starts nothing,
`allow` starts another sequence, `queue_one` starts one when the last has ended, `cancel` cancels
the last one and starts another."""
OVERLAPS: tuple[str, ...] = get_args(Overlap)
KEPT_RUNS = 50
"""Ticks of a schedule that are kept."""
MOST_BACKFILLED = 10_000
"""Ticks of one backfill."""


class ScheduledJob(msgspec.Struct, frozen=True, kw_only=True):
    """The job that a schedule starts."""

    type: str
    input: str
    queue: str
    priority: int
    max_attempts: int | None
    max_losses: int
    timeout: float | None
    key: str | None = None


class ScheduleDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as code declares it, or as it was put."""

    timetable: Timetable
    job: ScheduledJob
    overlap: Overlap = "skip"
    catch_up: CatchUp = CatchUp.latest()
    jitter: float = 0.0
    """Seconds: each job is due at its tick, or up to so much later."""
    unreadable: str | None = None
    """The definition as it is stored, if this version of Headway cannot read it."""

    def __post_init__(self) -> None:
        check_kind("catch_up", self.catch_up, CatchUp)
        if self.overlap not in OVERLAPS:
            raise InvalidOption(
                f"overlap is {', '.join(map(repr, OVERLAPS[:-1]))} or {OVERLAPS[-1]!r}, "
                f"not {self.overlap!r}"
            )
        check_seconds("jitter", self.jitter, zero=True)

    def __repr__(self) -> str:
        return f"<ScheduleDefinition {self.timetable} of {self.job.type!r}>"

    def encode(self) -> str:
        """As JSON, equal for equal definitions."""
        if self.unreadable is not None:
            return self.unreadable
        timeout = self.job.timeout
        content = {
            "timetable": encode_timetable(self.timetable),
            "job": {
                **_without_key(msgspec.to_builtins(self.job)),
                "timeout": None if timeout is None else float(timeout),
            },
            "overlap": self.overlap,
            "catch_up": [
                self.catch_up.mode,
                self.catch_up.within.total_seconds(),
                self.catch_up.at_most,
            ],
            "jitter": float(self.jitter),
        }
        return _encoder.encode(content).decode()

    @property
    def fingerprint(self) -> str:
        return sha256(self.encode().encode()).hexdigest()[:32]

    def delay(self, name: str, tick: datetime) -> timedelta:
        """The part of the jitter that the job of this tick gets; the same whoever fires it."""
        if not self.jitter:
            return timedelta()
        share = int.from_bytes(_digest(name, tick)[-8:]) / 2**64
        return timedelta(seconds=self.jitter * share)


_encoder = msgspec.json.Encoder(order="sorted")


def _without_key(job: dict[str, Any]) -> dict[str, Any]:
    """A job without a key is encoded as by versions that knew no keys, so that its fingerprint is
    the same."""
    if job["key"] is None:
        del job["key"]
    return job


def decode_definition(text: str) -> ScheduleDefinition:
    """Never raises: what a later version has written must not hold up other schedules."""
    try:
        content: dict[str, Any] = msgspec.json.decode(text)
        mode, within, at_most = content["catch_up"]
        return ScheduleDefinition(
            timetable=decode_timetable(content["timetable"]),
            job=msgspec.convert(content["job"], ScheduledJob),
            overlap=content["overlap"],
            catch_up=CatchUp(mode, timedelta(seconds=within), at_most),
            jitter=content["jitter"],
        )
    except (ValueError, TypeError, LookupError, ArithmeticError):
        return structs.replace(_UNREADABLE, unreadable=text)


_UNREADABLE = ScheduleDefinition(
    timetable=Cron.stored("unreadable", "UTC"),
    job=ScheduledJob(
        type="unreadable",
        input="null",
        queue=DEFAULT_QUEUE,
        priority=0,
        max_attempts=DEFAULT_MAX_ATTEMPTS,
        max_losses=DEFAULT_MAX_LOSSES,
        timeout=None,
    ),
)


class ScheduleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A stored schedule as it was at one moment."""

    name: str
    definition: ScheduleDefinition
    declaration: str | None
    """Fingerprint of the declaration in code; None: it was put at run time."""
    replaced: tuple[str, ...] = ()
    """Fingerprints of earlier declarations, the last one first."""
    next_at: datetime
    """When workers look at it: at the next tick, or earlier for a tick that waits."""
    waiting_tick: datetime | None = None
    """The tick that starts when the last sequence ends, with overlap `queue_one`."""
    paused_at: datetime | None = None
    last_tick: datetime | None = None
    """The tick that last started a job."""
    last_at: datetime | None = None
    """When that was."""
    last_sequence_id: str | None = None
    fired: int = 0
    """Ticks that started a job."""
    skipped: int = 0
    """Ticks that started none, because of an overlap or an outage."""
    runs: int = 0
    """Entries of `ScheduleRun` that were written; the last `KEPT_RUNS` of them are kept."""
    created_at: datetime
    changed_at: datetime
    """When its definition last changed."""

    def __repr__(self) -> str:
        then = f"next {moment(self.next_at)}" if self.paused_at is None else "paused"
        return f"<ScheduleRecord {self.name!r} {self.definition.timetable}, {then}>"

    @property
    def declared(self) -> bool:
        return self.declaration is not None

    @property
    def timetable(self) -> Timetable:
        """Raises InvalidRequest if this version of Headway cannot read the definition."""
        self.check_readable()
        return self.definition.timetable

    def check_readable(self) -> None:
        if self.definition.unreadable is not None:
            raise InvalidRequest(
                f"schedule {self.name!r} cannot be read by this version of Headway: upgrade this "
                "process, or put the schedule again"
            )

    @property
    def type(self) -> str:
        return self.definition.job.type


SkipReason = Literal["overlap", "missed"]


class ScheduleRun(msgspec.Struct, frozen=True, kw_only=True):
    """A tick of a schedule: it started a sequence, or was skipped."""

    tick: datetime
    at: datetime
    sequence_id: str | None = None
    skipped: SkipReason | None = None


class ScheduleAdvance(msgspec.Struct, frozen=True, kw_only=True):
    """What firing changes in a schedule."""

    name: str
    next_at: datetime
    waiting_tick: datetime | None
    started: tuple[datetime, datetime, str] | None
    """Tick, time and sequence of the last job started; None: none was."""
    fired: int
    """To be added, as is `skipped`."""
    skipped: int
    first_run: int
    """Number of the first one of `runs`."""
    runs: tuple[ScheduleRun, ...]


def tick_id(name: str, tick: datetime) -> str:
    """The id of the job of a tick: the same whoever fires it. A UUID of version 7, so that it sorts
    by the time of the tick."""
    milliseconds = int(tick.timestamp() * 1_000) & (1 << 48) - 1
    rest = int.from_bytes(_digest(name, tick)[:10])
    value = milliseconds << 80 | rest
    value = value & ~(0xF << 76) | 0x7 << 76  # version
    value = value & ~(0x3 << 62) | 0x2 << 62  # variant
    return str(UUID(int=value))


def _digest(name: str, tick: datetime) -> bytes:
    return sha256(f"{name}\0{tick.astimezone(UTC).isoformat()}".encode()).digest()


def job_of_tick(schedule: ScheduleRecord, tick: datetime) -> NewJob:
    """The job of a tick. Its due time has the jitter, its `scheduled_for` has not."""
    delay = schedule.definition.delay(schedule.name, tick)
    return _new_job(schedule, tick_id(schedule.name, tick), tick, At(tick + delay))


def job_of_trigger(schedule: ScheduleRecord, id: str, now: datetime) -> NewJob:
    """A job that is started now, for no tick."""
    schedule.check_readable()
    return _new_job(schedule, id, now, NOW)


def _new_job(schedule: ScheduleRecord, id: str, tick: datetime, due: Any) -> NewJob:
    job = schedule.definition.job
    return NewJob(
        id=id,
        type=job.type,
        input=job.input,
        queue=job.queue,
        priority=job.priority,
        max_attempts=job.max_attempts,
        max_losses=job.max_losses,
        timeout=job.timeout,
        schedule=due,
        schedule_name=schedule.name,
        scheduled_for=tick,
        key=job.key,
    )
