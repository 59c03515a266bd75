"""open and close: a closed notifier refuses calls, and closing keeps no other from working."""

from __future__ import annotations

import asyncio

from headway.errors import NotifierClosed
from headway.ports.notifications import SequenceEnded
from headway.ports.notifier import Reach
from headway.testing.conformance.case import raises
from headway.testing.conformance.notifier import kit
from headway.testing.conformance.notifier.kit import Make, NotifierCases

case = NotifierCases("close", kit.reaching(Reach.NOBODY))
NOTIFICATIONS = [SequenceEnded("one")]


@case
async def closing_twice_is_fine(make: Make) -> None:
    notifier = make()
    await notifier.open()
    await notifier.subscribe(kit.RecordingListener())
    await notifier.publish(NOTIFICATIONS)
    await notifier.close()
    await notifier.close()


@case
async def closing_before_opening_is_fine(make: Make) -> None:
    notifier = make()
    await notifier.close()
    await notifier.open()
    await notifier.publish(NOTIFICATIONS)
    await notifier.close()


@case
async def closing_at_once_from_many_is_fine(make: Make) -> None:
    notifier = make()
    await notifier.open()
    await notifier.subscribe(kit.RecordingListener())
    await asyncio.gather(*(notifier.close() for _ in range(5)))


@case
async def a_closed_notifier_refuses(make: Make) -> None:
    notifier = make()
    await notifier.open()
    await notifier.close()
    with raises(NotifierClosed):
        await notifier.publish(NOTIFICATIONS)
    with raises(NotifierClosed):
        await notifier.subscribe(kit.RecordingListener())


@case
async def a_closed_notifier_bears_what_cannot_be_refused(make: Make) -> None:
    notifier = make()
    await notifier.open()
    dispose = await notifier.subscribe(kit.RecordingListener())
    await notifier.close()
    notifier.publish_soon(NOTIFICATIONS)
    await asyncio.to_thread(notifier.publish_soon, NOTIFICATIONS)
    notifier.wants(SequenceEnded)
    await dispose()


@case
async def it_can_be_opened_again(make: Make) -> None:
    notifier = make()
    for _ in range(2):
        await notifier.open()
        await notifier.subscribe(kit.RecordingListener())
        await notifier.publish(NOTIFICATIONS)
        await notifier.close()


@case.only(kit.reaching(Reach.PROCESS))
async def who_was_subscribed_hears_nothing_after_closing(make: Make) -> None:
    heard = kit.RecordingListener()
    notifier = make()
    await notifier.open()
    await notifier.subscribe(heard)
    await notifier.close()
    await notifier.open()
    await notifier.publish(NOTIFICATIONS)
    await kit.silence()
    await notifier.close()
    assert heard.notifications == []


@case.only(kit.reaching(Reach.EVERYONE))
async def what_was_published_just_before_closing_is_sent(make: Make) -> None:
    async with kit.opened(make, 1) as (other,):
        heard = kit.RecordingListener()
        await other.subscribe(heard)
        short_lived = make()
        await short_lived.open()
        await short_lived.publish(NOTIFICATIONS)
        await short_lived.close()
        await heard.until(*NOTIFICATIONS)


@case
async def nothing_is_left_running(make: Make) -> None:
    before = asyncio.all_tasks()
    async with kit.opened(make) as (one, other):
        await other.subscribe(kit.RecordingListener())
        await one.publish(NOTIFICATIONS)
    assert asyncio.all_tasks() - before == set()
