"""Notifiers within one process."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from headway.notifiers.local import LocalNotifier
from headway.notifiers.none import NoNotifier
from headway.ports.notifications import JobsScheduled, Notification, SequenceEnded

NOTIFICATIONS = [SequenceEnded("a"), JobsScheduled("default", "charge", 3)]


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_everyone_hears_everything_until_they_leave():
    notifier = LocalNotifier()
    heard: list[Notification] = []
    other: list[Notification] = []
    leave = await notifier.subscribe(heard.append)
    await notifier.subscribe(other.append)
    await notifier.publish(NOTIFICATIONS)
    await settle()
    assert heard == other == NOTIFICATIONS
    await leave()
    await leave()
    notifier.publish_soon(NOTIFICATIONS)
    await settle()
    assert heard == NOTIFICATIONS
    assert other == NOTIFICATIONS * 2
    await notifier.close()
    await notifier.close()


async def test_a_listener_is_called_on_its_own_loop_whoever_publishes():
    notifier = LocalNotifier()
    called = asyncio.Event()
    threads: list[int] = []

    def listen(_: Notification) -> None:
        threads.append(threading.get_ident())
        called.set()

    await notifier.subscribe(listen)
    publisher = threading.Thread(target=notifier.publish_soon, args=(NOTIFICATIONS[:1],))
    publisher.start()
    await asyncio.wait_for(called.wait(), 10)
    publisher.join()
    assert threads == [threading.get_ident()]
    await notifier.close()


async def test_a_listener_that_raises_harms_no_other(caplog: pytest.LogCaptureFixture):
    notifier = LocalNotifier()
    heard: list[Notification] = []

    def rude(_: Notification) -> None:
        raise ValueError("no")

    await notifier.subscribe(rude)
    await notifier.subscribe(heard.append)
    with caplog.at_level(logging.ERROR, logger="headway"):
        await notifier.publish(NOTIFICATIONS)
        await settle()
    assert heard == NOTIFICATIONS
    assert "a listener of notifications raised" in caplog.text
    await notifier.close()


def test_a_subscriber_whose_loop_is_gone_is_forgotten():
    notifier = LocalNotifier()

    async def subscribe() -> None:
        await notifier.subscribe(lambda _: None)

    asyncio.run(subscribe())
    notifier.publish_soon(NOTIFICATIONS)
    assert not len(notifier._subscribers)


async def test_nobody_hears_anything_without_a_notifier():
    notifier = NoNotifier()
    heard: list[Notification] = []
    await notifier.open()
    leave = await notifier.subscribe(heard.append)
    await notifier.publish(NOTIFICATIONS)
    notifier.publish_soon(NOTIFICATIONS)
    await settle()
    await leave()
    await notifier.close()
    assert heard == []
