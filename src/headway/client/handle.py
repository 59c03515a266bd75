"""What the handles of `Client` and `SyncClient` have in common: the id of a sequence, and how its
output is decoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headway.domain.request import R_co, SequenceReference
from headway.jobs.codec import decode_plain

Decode = Callable[[str | None], Any]


class Handle(SequenceReference[R_co]):
    """A sequence whose result is an `R_co`."""

    __slots__ = ("decode", "deduplicated")

    def __init__(self, id: str, decode: Decode | None, deduplicated: bool) -> None:
        self.id = id  # checked, or made, by the client
        self.decode: Decode = decode or decode_plain
        self.deduplicated = deduplicated
        """Whether a job with the same key existed: this is the handle of its sequence, and nothing
        was started."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"


def decoder_of(sequence: SequenceReference[Any]) -> Decode:
    return sequence.decode if isinstance(sequence, Handle) else decode_plain
