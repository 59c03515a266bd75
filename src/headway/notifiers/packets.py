"""How news travels: as packets of JSON, one topic each, small enough for whatever carries them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from headway.ports.notifications import JobsScheduled, News, OwnershipLost, SequenceEnded, Topic

T = TypeVar("T")

LARGEST = 7_900
"""Bytes of a packet at most: PostgreSQL takes 7,999. Others may take more."""


class Packet(msgspec.Struct, frozen=True, omit_defaults=True):
    scheduled: tuple[JobsScheduled, ...] = msgspec.field(default=(), name="s")
    ended: tuple[str, ...] = msgspec.field(default=(), name="e")
    lost: tuple[OwnershipLost, ...] = msgspec.field(default=(), name="l")
    origin: str = msgspec.field(default="", name="o")
    """Who sent it, and told its own subscribers already; empty: nobody has been told."""
    awaiting: bool = msgspec.field(default=False, name="w")
    """The sender has somebody who waits for sequences to end."""
    asking: bool = msgspec.field(default=False, name="q")
    """The sender asks whether anybody does."""

    @property
    def news(self) -> list[News]:
        return [*self.scheduled, *map(SequenceEnded, self.ended), *self.lost]


Message = tuple[Topic, bytes]

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Packet)


def encode(packet: Packet) -> bytes:
    return _encoder.encode(packet)


def decode(data: bytes | str) -> Packet | None:
    """None for what is not ours."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError:
        return None


def pack(news: Iterable[News], origin: str, largest: int = LARGEST) -> list[Message]:
    """News as packets by topic, none of them too large."""
    scheduled: list[JobsScheduled] = []
    ended: list[str] = []
    lost: list[OwnershipLost] = []
    for item in news:
        match item:
            case JobsScheduled():
                scheduled.append(item)
            case SequenceEnded():
                ended.append(item.sequence_id)
            case OwnershipLost():
                lost.append(item)
    return [
        *_split(
            Topic.SCHEDULED,
            scheduled,
            lambda part: Packet(scheduled=tuple(part), origin=origin),
            largest,
        ),
        *_split(Topic.ENDED, ended, lambda part: Packet(ended=tuple(part), origin=origin), largest),
        *_split(Topic.LOST, lost, lambda part: Packet(lost=tuple(part), origin=origin), largest),
    ]


def _split(
    topic: Topic, items: Sequence[T], packet_of: Callable[[Sequence[T]], Packet], largest: int
) -> Iterator[Message]:
    """One packet, or as many as it takes, halving."""
    if not items:
        return
    data = encode(packet_of(items))
    if len(data) <= largest:
        yield topic, data
    elif len(items) > 1:  # a single one that is too large is only a hint, and left out
        half = len(items) // 2
        yield from _split(topic, items[:half], packet_of, largest)
        yield from _split(topic, items[half:], packet_of, largest)
