"""subscribe and publish: which notifications reach each listener, here and in other processes."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime

from headway.ports.notifications import (
    Interest,
    JobsScheduled,
    Notification,
    OwnershipLost,
    SequenceEnded,
)
from headway.ports.notifier import Notifier, NotifierStatus, Reach
from headway.testing.conformance.notifier import kit
from headway.testing.conformance.notifier.kit import Make, NotifierCases

case = NotifierCases("subscribe", kit.reaching(Reach.PROCESS))

MOMENT = datetime(2031, 2, 3, 4, 5, 6, 789_012, tzinfo=UTC)
ONE_OF_EACH: list[Notification] = [
    JobsScheduled("mail", "send", 3, MOMENT),
    SequenceEnded("one"),
    OwnershipLost("two", "cancelled", "somebody"),
]


@case
async def everything_that_is_published_is_heard_elsewhere(make: Make) -> None:
    async with kit.opened(make) as (one, other):
        heard = kit.RecordingListener()
        await other.subscribe(heard)
        await one.publish(ONE_OF_EACH)
        await heard.until(*ONE_OF_EACH)


@case
async def what_is_published_is_heard_where_it_was_published_and_once(make: Make) -> None:
    async with kit.opened(make, 1) as (one,):
        heard = kit.RecordingListener()
        await one.subscribe(heard)
        await one.publish(ONE_OF_EACH)
        await heard.until(*ONE_OF_EACH)
        await kit.silence()
        assert len(heard.notifications) == len(ONE_OF_EACH)


@case
async def a_subscription_is_active_when_subscribe_returns(make: Make) -> None:
    async with kit.opened(make) as (one, other):
        for turn in range(5):
            heard = kit.RecordingListener()
            dispose = await other.subscribe(heard, Interest(sequences=frozenset((str(turn),))))
            await one.publish([SequenceEnded(str(turn))])
            await heard.until(SequenceEnded(str(turn)))
            await dispose()


@case
async def a_topic_that_is_subscribed_to_later_is_active_too(make: Make) -> None:
    async with kit.opened(make) as (one, other):
        jobs, sequences = kit.RecordingListener(), kit.RecordingListener()
        await other.subscribe(jobs, kit.interest_in())
        await one.publish(ONE_OF_EACH[:1])
        await jobs.until_count(1)
        await other.subscribe(sequences, Interest(sequences=frozenset(("one",))))
        await one.publish(ONE_OF_EACH)
        await sequences.until(SequenceEnded("one"))
        await jobs.until_count(2)


@case
async def who_has_left_hears_nothing_and_may_leave_again(make: Make) -> None:
    async with kit.opened(make) as (one, other):
        gone, there = kit.RecordingListener(), kit.RecordingListener()
        leave = await other.subscribe(gone)
        await other.subscribe(there)
        await leave()
        await leave()
        await one.publish([SequenceEnded("one")])
        await there.until_count(1)
        assert gone.notifications == []


@case
async def a_listener_that_raises_harms_no_other_nor_itself(make: Make) -> None:
    async with kit.opened(make) as (one, other):
        heard, rude = kit.RecordingListener(), kit.RecordingListener()

        def raising(notification: Notification) -> None:
            rude(notification)
            raise ValueError("no")

        await other.subscribe(raising)
        await other.subscribe(heard)
        await one.publish([SequenceEnded("one"), SequenceEnded("two")])
        await heard.until_count(2)
        await rude.until_count(2)


@case
async def a_listener_is_called_on_the_loop_that_subscribed_it(make: Make) -> None:
    async with kit.opened(make) as (one, other):
        called: list[int] = []
        ready, done = threading.Event(), threading.Event()

        async def listen() -> None:
            heard = asyncio.Event()

            def note(_: Notification) -> None:
                called.append(threading.get_ident())
                heard.set()

            dispose = await other.subscribe(note)
            ready.set()
            async with asyncio.timeout(kit.TIMEOUT):
                await heard.wait()
            await dispose()
            done.set()

        thread = threading.Thread(target=asyncio.run, args=(listen(),))
        thread.start()
        try:
            assert await asyncio.to_thread(ready.wait, kit.TIMEOUT)
            await one.publish([SequenceEnded("one")])
            assert await asyncio.to_thread(done.wait, kit.TIMEOUT)
            assert called == [thread.ident]
        finally:
            await asyncio.to_thread(thread.join, kit.TIMEOUT)


@case
async def threads_publish_without_waiting(make: Make) -> None:
    async with kit.opened(make) as (one, other):
        heard = kit.RecordingListener()
        await other.subscribe(heard)
        await asyncio.gather(
            *(
                asyncio.to_thread(one.publish_soon, [SequenceEnded(str(number))])
                for number in range(20)
            )
        )
        await heard.until(*(SequenceEnded(str(number)) for number in range(20)))


@case
async def many_notifications_at_once_all_arrive(make: Make) -> None:
    async with kit.opened(make) as (one, other):
        heard = kit.RecordingListener()
        await other.subscribe(heard)
        many: list[Notification] = [SequenceEnded(f"{number:036}") for number in range(3_000)]
        many += [JobsScheduled(f"queue-{number}", "send", 1, MOMENT) for number in range(300)]
        many += [OwnershipLost(f"{number:036}", "lease_expired", "w") for number in range(300)]
        await one.publish(many)
        await heard.until_count(len(many))
        assert {*heard.plain()} == {*many}


@case
async def the_longest_names_arrive(make: Make) -> None:
    async with kit.opened(make) as (one, other):
        queue, type, worker = "q" * 200, "t" * 200, "w" * 200
        heard = kit.RecordingListener()
        await other.subscribe(heard, kit.interest_in(queue=queue, type=type, worker=worker))
        notifications: list[Notification] = [
            JobsScheduled(queue, type, 1),
            OwnershipLost("one", "cancelled", worker),
        ]
        await one.publish(notifications)
        await heard.until(*notifications)


@case
async def subscribers_are_told_that_notifications_arrive(make: Make) -> None:
    async with kit.opened(make, 1) as (one,):
        said: list[NotifierStatus] = []
        await one.subscribe(kit.RecordingListener(), kit.interest_in(), on_status=said.append)
        assert said == [NotifierStatus(connected=True)]


@case
async def ends_of_sequences_are_wanted_while_somebody_here_waits(make: Make) -> None:
    async with kit.opened(make, 1) as (one,):
        dispose = await one.subscribe(
            kit.RecordingListener(), Interest(sequences=frozenset(("one",)))
        )
        assert one.wants(SequenceEnded)
        await dispose()


@case.only(kit.reaching(Reach.EVERYONE))
async def ends_of_sequences_are_wanted_only_while_somebody_waits(make: Make) -> None:
    async with kit.opened(make) as (worker, waiter):
        await worker.subscribe(kit.RecordingListener(), kit.interest_in(worker="me"))
        assert not worker.wants(SequenceEnded)
        heard = kit.RecordingListener()
        await waiter.subscribe(heard, Interest(sequences=frozenset(("one",))))
        await _wanted_by(worker)
        await worker.publish([SequenceEnded("one")])
        await heard.until(SequenceEnded("one"))


@case.only(kit.reaching(Reach.EVERYONE))
async def a_worker_that_comes_later_hears_that_somebody_waits(make: Make) -> None:
    async with kit.opened(make) as (waiter, worker):
        await waiter.subscribe(kit.RecordingListener(), Interest(sequences=frozenset(("one",))))
        await kit.silence()
        await worker.subscribe(kit.RecordingListener(), kit.interest_in(worker="me"))
        await _wanted_by(worker)


async def _wanted_by(notifier: Notifier) -> None:
    for _ in range(1_000):
        if notifier.wants(SequenceEnded):
            return
        await asyncio.sleep(kit.TIMEOUT / 1_000)
    raise AssertionError("it does not know that somebody waits")
