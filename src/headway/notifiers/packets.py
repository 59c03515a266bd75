"""Encoding of notifications: packets of JSON, one topic each, small enough for the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from headway.ports.notifications import (
    JobsScheduled,
    Notification,
    OwnershipLost,
    SchedulesChanged,
    SequenceEnded,
    Topic,
)

T = TypeVar("T")

LARGEST = 7_900
"""Bytes of a packet at most: PostgreSQL takes 7,999. Other servers may take more."""


class Packet(msgspec.Struct, frozen=True, omit_defaults=True):
    scheduled: tuple[JobsScheduled, ...] = msgspec.field(default=(), name="s")
    ended: tuple[str, ...] = msgspec.field(default=(), name="e")
    lost: tuple[OwnershipLost, ...] = msgspec.field(default=(), name="l")
    schedules: bool = msgspec.field(default=False, name="t")
    """Schedules have changed."""
    origin: str = msgspec.field(default="", name="o")
    """The sending notifier, which has told its own subscribers; empty: no subscriber was told."""
    awaiting: bool = msgspec.field(default=False, name="w")
    """The sender has subscribers that wait for the ends of sequences."""
    asking: bool = msgspec.field(default=False, name="q")
    """The sender asks whether others have such subscribers."""

    @property
    def notifications(self) -> list[Notification]:
        changed = [SchedulesChanged()] if self.schedules else []
        return [*self.scheduled, *map(SequenceEnded, self.ended), *self.lost, *changed]


Message = tuple[Topic, bytes]

encode: Callable[[Packet], bytes] = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Packet)


def decode(data: bytes | str) -> Packet | None:
    """None for data that is not a packet of Headway."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError:
        return None


def pack(
    notifications: Iterable[Notification], origin: str, largest: int = LARGEST
) -> list[Message]:
    """Notifications as packets by topic, none of them too large."""
    scheduled: list[JobsScheduled] = []
    ended: list[str] = []
    lost: list[OwnershipLost] = []
    changed = False
    for item in notifications:
        match item:
            case JobsScheduled():
                scheduled.append(item)
            case SequenceEnded():
                ended.append(item.sequence_id)
            case OwnershipLost():
                lost.append(item)
            case SchedulesChanged():
                changed = True
    return [
        *_split(
            Topic.SCHEDULED,
            scheduled,
            lambda part: Packet(scheduled=tuple(part), origin=origin),
            largest,
        ),
        *_split(Topic.ENDED, ended, lambda part: Packet(ended=tuple(part), origin=origin), largest),
        *_split(Topic.LOST, lost, lambda part: Packet(lost=tuple(part), origin=origin), largest),
        *((Topic.SCHEDULES, encode(Packet(schedules=True, origin=origin))) for _ in range(changed)),
    ]


def _split(
    topic: Topic, items: Sequence[T], packet_of: Callable[[Sequence[T]], Packet], largest: int
) -> Iterator[Message]:
    """One packet; too large a list is halved until each packet fits."""
    if not items:
        return
    data = encode(packet_of(items))
    if len(data) <= largest:
        yield topic, data
    elif len(items) > 1:  # one that is too large by itself is dropped: polling finds the job
        half = len(items) // 2
        yield from _split(topic, items[:half], packet_of, largest)
        yield from _split(topic, items[half:], packet_of, largest)
