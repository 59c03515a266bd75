"""Changes of schedules by operators, each with its audit row in one transaction."""

from __future__ import annotations

from datetime import datetime

from msgspec import structs

from headway.after_commit.effects import Effects
from headway.domain.schedules.schedule import ScheduleRecord
from headway.domain.schedules.schedule_views import Backfill, ScheduleChange
from headway.domain.text import moment
from headway.domain.views import AuditRecord
from headway.ports.statement import Operation
from headway.ports.store import Operations
from headway.schedules import changes


def pause_schedule(
    store: Operations, name: str, paused: bool, note: AuditRecord, now: datetime | None
) -> Operation[tuple[ScheduleChange, Effects]]:
    # Locked before it is changed, so that the audit row tells what it was.
    (before,) = yield from store.schedules([name], lock=True)
    change = changes.pause if paused else changes.resume
    record, effects = yield from change(store, name, now)
    changed = ScheduleChange(
        name=name,
        before=_word(before or record),
        after=_word(record),
        next_at=None if paused else record.next_at,
    )
    yield from _add_audit(store, note, changed, now)
    return changed, effects


def trigger_schedule(
    store: Operations, name: str, note: AuditRecord, now: datetime | None, *, watched: bool
) -> Operation[tuple[str, Effects]]:
    id, effects = yield from changes.trigger(store, name, now, watched=watched)
    yield from store.add_audit(
        structs.replace(note, target=f"{name} {id}", count=1, after="pending"), now=now
    )
    return id, effects


def backfill_schedule(
    store: Operations,
    name: str,
    since: datetime,
    until: datetime | None,
    at_most: int | None,
    note: AuditRecord,
    now: datetime | None,
    *,
    watched: bool,
) -> Operation[tuple[Backfill, Effects]]:
    stored, effects = yield from changes.backfill(
        store, name, since, until, at_most, now, watched=watched
    )
    started = sum(not each.deduplicated for each in stored)
    target = f"{name} from {moment(since)} to {'now' if until is None else moment(until)}"
    yield from store.add_audit(
        structs.replace(note, target=target, count=started, after="pending"), now=now
    )
    return Backfill(name=name, started=started, existing=len(stored) - started), effects


def delete_schedule(
    store: Operations, name: str, note: AuditRecord, now: datetime | None
) -> Operation[ScheduleChange]:
    record = yield from changes.delete(store, name, now)
    changed = ScheduleChange(name=name, before=_word(record), after="deleted", next_at=None)
    yield from _add_audit(store, note, changed, now)
    return changed


def _add_audit(
    store: Operations, note: AuditRecord, changed: ScheduleChange, now: datetime | None
) -> Operation[None]:
    yield from store.add_audit(
        structs.replace(note, count=1, before=changed.before, after=changed.after), now=now
    )


def _word(record: ScheduleRecord) -> str:
    return "active" if record.paused_at is None else "paused"
