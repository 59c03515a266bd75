"""Changes of limits and holds by operators, each with its audit row in one transaction."""

from __future__ import annotations

from datetime import datetime

from msgspec import structs

from headway.admin.limits.permit_details import holds
from headway.after_commit.effects import Effects
from headway.domain.limits.limit_views import HoldRelease, LimitsChange
from headway.domain.limits.queue_limits import LimitsOverride, QueueState
from headway.domain.text import moment, plural
from headway.domain.views import AuditRecord
from headway.limits import changes
from headway.ports.statement import Operation
from headway.ports.store import Operations


def limit_queue(
    store: Operations,
    queue: str,
    change: LimitsOverride | None,
    note: AuditRecord,
    now: datetime | None,
    *,
    exactly: bool = False,
) -> Operation[tuple[LimitsChange, Effects]]:
    """Override limits; None takes all overrides back."""
    if change is None:  # a lock would keep a row for a queue that has none
        state = yield from store.queue_state(queue)
        if state is None or state.limits is None or state.limits.override is None:
            return _changed(state or QueueState(name=queue)), Effects()
    before, after = yield from changes.override(store, queue, change, exactly=exactly, now=now)
    effects = yield from _add_audit(
        store, queue, note, str(before.effective), str(after.effective), now
    )
    return _changed(after), effects


def release_hold(
    store: Operations, queue: str, note: AuditRecord, now: datetime | None
) -> Operation[tuple[HoldRelease, Effects]]:
    time = yield from store.time(now=now)
    state = yield from store.queue_state(queue)
    if state is not None and any(holds(state, time)):
        state = yield from changes.let_go(store, queue)
    held_until, held_keys = (None, {}) if state is None else holds(state, time)
    released = HoldRelease(queue=queue, held_until=held_until, held_keys=len(held_keys))
    said: list[str] = []
    if held_until is not None:
        said.append(f"held until {moment(held_until)}")
    if held_keys:
        said.append(f"{plural(len(held_keys), 'key')} held")
    if not said:
        return released, Effects()
    effects = yield from _add_audit(store, queue, note, "; ".join(said), "not held", now)
    return released, effects


def _add_audit(
    store: Operations, queue: str, note: AuditRecord, before: str, after: str, now: datetime | None
) -> Operation[Effects]:
    yield from store.add_audit(structs.replace(note, count=1, before=before, after=after), now=now)
    effects = Effects()
    effects.change_limits(queue)
    return effects


def _changed(state: QueueState) -> LimitsChange:
    override = None if state.limits is None else state.limits.override
    return LimitsChange(queue=state.name, effective=state.effective, override=override)
