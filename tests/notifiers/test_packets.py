"""What travels between processes, and what waits to."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.notifiers.packets import LARGEST, decode, pack
from headway.notifiers.send_buffer import MOST, SendBuffer
from headway.ports.notifications import JobsScheduled, Notification, OwnershipLost, SequenceEnded

names = st.text("abcXYZ019_./:-", min_size=1, max_size=200)
moments = st.datetimes(timezones=st.just(UTC)) | st.none()
notifications_strategy = st.one_of(
    st.builds(JobsScheduled, names, names, st.integers(0, 10**6), moments, names | st.none()),
    st.builds(SequenceEnded, names),
    st.builds(OwnershipLost, names, names, names | st.none()),
)


@given(st.lists(notifications_strategy, max_size=60))
def test_what_is_packed_arrives_in_packets_that_are_small_enough(
    notifications: list[Notification],
) -> None:
    arrived: list[Notification] = []
    for _, packet in pack(notifications, "me"):
        assert len(packet) <= LARGEST
        found = decode(packet)
        assert found is not None
        assert found.origin == "me"
        arrived += found.notifications
    assert Counter(arrived) == Counter(notifications)


@given(st.binary())
def test_junk_is_no_notification(data: bytes) -> None:
    packet = decode(data)
    assert packet is None or packet.notifications == []


def test_a_single_notification_that_is_too_large_is_left_out() -> None:
    assert pack([SequenceEnded("x" * LARGEST), SequenceEnded("y")], "") == pack(
        [SequenceEnded("y")], ""
    )


EARLY, LATE = (datetime(2030, 1, day, tzinfo=UTC) for day in (1, 2))


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ((1, EARLY), (2, LATE), (3, EARLY)),
        ((1, LATE), (2, EARLY), (3, EARLY)),
        ((1, None), (2, LATE), (3, None)),
        ((0, EARLY), (2, EARLY), (0, EARLY)),
    ],
)
def test_counts_add_up_and_the_earliest_counts(
    one: tuple[int, datetime | None],
    other: tuple[int, datetime | None],
    both: tuple[int, datetime | None],
) -> None:
    outbox = SendBuffer()
    outbox.put([JobsScheduled("q", "t", *one), JobsScheduled("q", "other", 5)])
    outbox.put([JobsScheduled("q", "t", *other)])
    assert outbox.take() == [JobsScheduled("q", "t", *both), JobsScheduled("q", "other", 5)]
    assert not outbox


def test_an_outbox_does_not_grow_without_bound() -> None:
    outbox = SendBuffer()
    for kind in (SequenceEnded, lambda name: OwnershipLost(name, "r")):
        outbox.put(kind(str(number)) for number in range(MOST + 5))
        outbox.put(kind("0") for _ in range(5))
    outbox.put(JobsScheduled(str(number), "t", 1) for number in range(MOST + 5))
    assert len(outbox.take()) == 3 * MOST
