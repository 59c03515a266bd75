"""How callers name jobs and sequences: by handle, record or id, or by a filter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeVar
from uuid import UUID

from headway.domain.job import JobRecord, JobState
from headway.domain.queries import MAX_PAGE, JobFilter
from headway.domain.request import SequenceReference
from headway.domain.validation import check_id, check_key, check_name
from headway.domain.views import ShownState
from headway.errors import InvalidOption
from headway.jobs.job_type import AnyType, ContinuationType

T = TypeVar("T")

Target = SequenceReference[Any] | JobRecord | UUID | str
"""A job or a sequence, by handle, by record or by id."""
Targets = Target | Iterable[Target]
State = (
    JobState
    | ShownState
    | Literal["blocked", "scheduled", "pending", "running", "completed", "failed", "cancelled"]
)
"""A state to list jobs by: `scheduled` jobs are pending ones that are not due yet."""


def target_id(target: Target) -> str:
    return target.id if isinstance(target, SequenceReference | JobRecord) else check_id(target)


def sequence_of(target: Target) -> str:
    """The id of a sequence; a record names the sequence of its job."""
    return target.sequence_id if isinstance(target, JobRecord) else target_id(target)


def target_ids(targets: Targets) -> list[str]:
    """The ids of one or many targets, each once."""
    if isinstance(targets, SequenceReference | JobRecord | UUID | str):
        return [target_id(targets)]
    return list(dict.fromkeys(target_id(target) for target in targets))


def make_filter(
    state: State | Iterable[State] | None,
    type: AnyType | str | Iterable[AnyType | str] | None,
    queue: str | Iterable[str] | None,
    sequence: Target | None,
    root: Target | None,
    schedule: str | None,
    key: str | None,
) -> JobFilter:
    shown = {_state(one) for one in _many(state, str)}
    stored = {
        JobState.PENDING if one is ShownState.SCHEDULED else JobState(one.value) for one in shown
    }
    only_scheduled = ShownState.SCHEDULED in shown and ShownState.PENDING not in shown
    return JobFilter(
        states=tuple(sorted(stored)),
        due=False if only_scheduled else None,
        types=tuple(
            one.name if isinstance(one, ContinuationType) else one
            for one in _many(type, str | ContinuationType)
        ),
        queues=tuple(_many(queue, str)),
        sequence_id=None if sequence is None else sequence_of(sequence),
        root_id=None if root is None else _root_id(root),
        schedules=() if schedule is None else (check_name("schedule", schedule),),
        keys=() if key is None else (check_key("key", key),),
    )


def _root_id(target: Target) -> str:
    return target.root_id if isinstance(target, JobRecord) else target_id(target)


def check_page(limit: int) -> int:
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidOption(f"a page holds 1 to {MAX_PAGE} jobs, not {limit}")
    return limit


def _many(given: Any, single: Any) -> tuple[Any, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, single) else tuple(given)


def _state(name: str) -> ShownState:
    try:
        return ShownState(name)
    except ValueError:
        known = ", ".join(ShownState)
        raise InvalidOption(f"there is no state {name!r}; there are {known}") from None
