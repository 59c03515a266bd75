"""Stores the schedules that the code of a worker declares.

During a deploy, workers with an old and a new declaration of a schedule run side by side. The new
one replaces the stored one. A worker with a declaration that was replaced takes it back only when
no living worker declares the stored one: after a deploy was rolled back.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import structs

from headway.domain.queries import WorkerRecord, is_alive
from headway.domain.schedules.schedule import ScheduleDefinition, ScheduleRecord
from headway.ports.statement import Operation, reading
from headway.ports.store import Operations

MOST_REPLACED = 20
"""Earlier declarations of a schedule that are remembered."""


@reading
def is_declared(store: Operations, declared: Mapping[str, ScheduleDefinition]) -> Operation[bool]:
    """Whether the stored schedules are those that the code declares."""
    stored = yield from store.schedules(list(declared))
    return all(
        record is not None and record.declaration == definition.fingerprint
        for record, definition in zip(stored, declared.values(), strict=True)
    )


def declare(
    store: Operations,
    worker: WorkerRecord,
    declared: Mapping[str, ScheduleDefinition],
    *,
    now: datetime | None = None,
) -> Operation[list[str]]:
    """Store the declared schedules, and the record of the worker that declares them; the names that
    are taken by schedules that were put at run time."""
    yield from store.save_worker(worker, now=now)
    time = yield from store.time(now=now)
    stored = yield from _lock_others(store, declared)
    workers = yield from store.workers()
    living = {
        (name, fingerprint)
        for other in workers
        if is_alive(other, time)
        for name, fingerprint in (other.schedules or {}).items()
    }
    taken: list[str] = []
    changed: list[ScheduleRecord] = []
    new: list[ScheduleRecord] = []
    for (name, definition), record in zip(declared.items(), stored, strict=True):
        fingerprint = definition.fingerprint
        if record is None:
            new.append(new_schedule(name, definition, time, declaration=fingerprint))
        elif record.declaration is None:
            taken.append(name)
        elif record.declaration != fingerprint and not (
            fingerprint in record.replaced and (name, record.declaration) in living
        ):
            earlier = tuple(one for one in record.replaced if one != fingerprint)
            if earlier == record.replaced:  # it is new; else it was replaced before, and comes back
                earlier = (record.declaration, *earlier)[:MOST_REPLACED]
            changed.append(
                structs.replace(
                    changed_schedule(record, definition, time),
                    declaration=fingerprint,
                    replaced=earlier,
                )
            )
    if new:
        # If others store one at the same time, the next check sees it.
        yield from store.add_schedules(new)
    if changed:
        yield from store.put_schedules(changed)
    return taken


def _lock_others(
    store: Operations, declared: Mapping[str, ScheduleDefinition]
) -> Operation[list[ScheduleRecord | None]]:
    """The stored schedules of these names. Locked are only those with another declaration, which
    may be replaced: a transaction that holds one of the rest holds up no worker."""
    stored = yield from store.schedules(list(declared))
    others = [
        name
        for (name, definition), record in zip(declared.items(), stored, strict=True)
        if record is not None and record.declaration not in (None, definition.fingerprint)
    ]
    locked = dict(zip(others, (yield from store.schedules(others, lock=True)), strict=True))
    return [locked.get(name, record) for name, record in zip(declared, stored, strict=True)]


def new_schedule(
    name: str, definition: ScheduleDefinition, now: datetime, *, declaration: str | None
) -> ScheduleRecord:
    return ScheduleRecord(
        name=name,
        definition=definition,
        declaration=declaration,
        next_at=definition.timetable.next_after(now),
        created_at=now,
        changed_at=now,
    )


def changed_schedule(
    record: ScheduleRecord, definition: ScheduleDefinition, now: datetime
) -> ScheduleRecord:
    """A schedule with another definition. A tick that is due stays due if the timetable is the
    same."""
    if definition == record.definition:
        return record
    if definition.timetable == record.definition.timetable:
        return structs.replace(record, definition=definition, changed_at=now)
    return structs.replace(
        record,
        definition=definition,
        next_at=definition.timetable.next_after(now),
        waiting_tick=None,
        changed_at=now,
    )
