"""add_audit, audit_page, prune_audit: the record of an action is kept together with its effect."""

from __future__ import annotations

from typing import Any

import msgspec

from headway.domain.job import JobState
from headway.domain.views import AuditRecord
from headway.errors import InvalidOption
from headway.ports.statement import Operation
from headway.ports.store import Store
from headway.testing.conformance.case import raises
from headway.testing.conformance.store import kit
from headway.testing.conformance.store.kit import MICROSECOND, T0, StoreCases, at

case = StoreCases("audit")


def entry(**fields: Any) -> AuditRecord:
    given: dict[str, Any] = {
        "id": kit.new_id(),
        "at": T0,
        "actor": "anna",
        "action": "retry",
        "target": "state:failed",
        "count": 412,
        "before": "failed",
        "after": "pending",
    }
    return AuditRecord(**given | fields)


@case
async def notes_are_kept_as_they_are_but_for_the_time(store: Store) -> None:
    note = entry(actor="änna <b>", target='it\'s "quoted" \\ %', before="", after="x" * 5_000)
    await store.run(store.add_audit, note, now=at(7))
    page = await store.run(store.audit_page)
    assert page.records == [msgspec.structs.replace(note, at=at(7))]
    assert page.cursor is None


@case
async def notes_come_newest_first_in_pages(store: Store) -> None:
    notes = [entry(count=number) for number in range(5)]
    for note in notes:
        await store.run(store.add_audit, note, now=T0)
    seen: list[int] = []
    cursor: str | None = None
    while True:
        page = await store.run(store.audit_page, cursor=cursor, limit=2)
        seen += [record.count for record in page.records]
        cursor = page.cursor
        if cursor is None:
            break
    assert seen == [4, 3, 2, 1, 0]


@case
async def a_cursor_that_is_not_ours_is_refused(store: Store) -> None:
    with raises(InvalidOption):
        await store.run(store.audit_page, cursor="nonsense!")
    for limit in (0, 1_001):
        with raises(InvalidOption):
            await store.run(store.audit_page, limit=limit)


@case
async def old_notes_are_forgotten(store: Store) -> None:
    old, newer = entry(), entry()
    await store.run(store.add_audit, old, now=T0)
    await store.run(store.add_audit, newer, now=at(60))
    assert await store.run(store.prune_audit, 60.0, now=at(60)) == 0
    assert await store.run(store.prune_audit, 60.0, now=at(60) + MICROSECOND) == 1
    assert [record.id for record in (await store.run(store.audit_page)).records] == [newer.id]
    assert await store.run(store.prune_audit, 1e9, now=at(120)) == 0


@case
async def many_notes_are_forgotten_in_time(store: Store) -> None:
    def keep(count: int) -> Operation[None]:
        for _ in range(count):
            yield from store.add_audit(entry(), now=T0)

    await store.run(keep, 1_100)
    gone = 0
    while forgotten := await store.run(store.prune_audit, 1.0, now=at(60)):
        gone += forgotten
    assert gone == 1_100
    assert (await store.run(store.audit_page)).records == []


@case
async def a_note_is_there_exactly_if_its_effect_is(store: Store) -> None:
    job_id = await kit.add(store)

    def cancel(*, fails: bool) -> Operation[None]:
        yield from store.cancel([job_id], now=at(1))
        yield from store.add_audit(entry(), now=at(1))
        if fails:
            raise RuntimeError("after both")

    with raises(RuntimeError):
        await store.run(cancel, fails=True)
    assert await kit.state_of(store, job_id) is JobState.PENDING
    assert (await store.run(store.audit_page)).records == []
    await store.run(cancel, fails=False)
    assert await kit.state_of(store, job_id) is JobState.CANCELLED
    assert len((await store.run(store.audit_page)).records) == 1
