"""Interest: a listener gets only the notifications that it asked for."""

from __future__ import annotations

from headway.ports.notifications import (
    Interest,
    JobsScheduled,
    Notification,
    OwnershipLost,
    SchedulesChanged,
    SequenceEnded,
)
from headway.ports.notifier import Reach
from headway.testing.conformance.notifier import kit
from headway.testing.conformance.notifier.kit import Make, NotifierCases

case = NotifierCases("interest", kit.reaching(Reach.PROCESS))


async def _heard(
    make: Make, interest: Interest, published: list[Notification]
) -> list[Notification]:
    """What somebody with this interest hears; an onlooker tells when everything has come."""
    async with kit.opened(make) as (one, other):
        heard, onlooker = kit.RecordingListener(), kit.RecordingListener()
        await other.subscribe(heard, interest)
        await other.subscribe(onlooker)
        await one.publish(published)
        await onlooker.until_count(len(published))
        return heard.plain()


@case
async def jobs_are_filtered_by_queue_and_by_type(make: Make) -> None:
    wanted = JobsScheduled("mail", "send", 1)
    others: list[Notification] = [
        JobsScheduled("other", "send", 1),
        JobsScheduled("mail", "other", 1),
        SequenceEnded("one"),
        OwnershipLost("one", "cancelled", "me"),
    ]
    assert await _heard(make, kit.interest_in(), [*others, wanted]) == [wanted]


@case
async def several_queues_and_types_can_be_of_interest(make: Make) -> None:
    interest = Interest(queues=frozenset("ab"), types=frozenset("xy"))
    published: list[Notification] = [
        JobsScheduled(queue, type, 1) for queue in "abc" for type in "xyz"
    ]
    heard = await _heard(make, interest, published)
    assert {*heard} == {JobsScheduled(queue, type, 1) for queue in "ab" for type in "xy"}


@case
async def sequences_are_filtered_by_id(make: Make) -> None:
    interest = Interest(sequences=frozenset(("one", "three")))
    published: list[Notification] = [
        SequenceEnded(name) for name in ("one", "two", "three", "four")
    ]
    assert await _heard(make, interest, published) == [SequenceEnded("one"), SequenceEnded("three")]


@case
async def lost_jobs_are_filtered_by_worker(make: Make) -> None:
    mine, anyones = OwnershipLost("one", "cancelled", "me"), OwnershipLost("three", "cancelled")
    published: list[Notification] = [mine, OwnershipLost("two", "cancelled", "you"), anyones]
    assert await _heard(make, Interest(worker="me"), published) == [mine, anyones]


@case
async def changes_of_schedules_are_heard_by_those_who_fire_them(make: Make) -> None:
    changed = SchedulesChanged()
    published: list[Notification] = [SequenceEnded("one"), changed]
    assert await _heard(make, Interest(worker="me", schedules=True), published) == [changed]
    assert await _heard(make, Interest(worker="me"), published) == []


@case
async def who_names_nothing_hears_nothing(make: Make) -> None:
    published: list[Notification] = [
        JobsScheduled("mail", "send", 1),
        SequenceEnded("one"),
        OwnershipLost("one", "cancelled"),
    ]
    assert await _heard(make, Interest(), published) == []


@case
async def many_who_wait_hear_of_their_own_only(make: Make) -> None:
    async with kit.opened(make) as (one, other):
        waiters = [kit.RecordingListener() for _ in range(500)]
        for number, waiter in enumerate(waiters):
            await other.subscribe(waiter, Interest(sequences=frozenset((str(number),))))
        await one.publish([SequenceEnded(str(number)) for number in range(500)])
        for number, waiter in enumerate(waiters):
            await waiter.until_count(1)
            assert waiter.notifications == [SequenceEnded(str(number))]
