"""Handles of sequences that were started: their id, and how to get at what they yield."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from headway.domain.job import JobRecord
from headway.domain.request import R_co, SequenceReference
from headway.jobs.codec import decode_plain

R = TypeVar("R")
Decode = Callable[[str | None], Any]


class _Client(Protocol):
    async def wait(
        self, sequence: SequenceReference[R], /, *, timeout: float | None = None
    ) -> R: ...

    async def current(self, sequence: SequenceReference[Any], /) -> JobRecord: ...


class _BlockingClient(Protocol):
    def wait(self, sequence: SequenceReference[R], /, *, timeout: float | None = None) -> R: ...

    def current(self, sequence: SequenceReference[Any], /) -> JobRecord: ...


class Handle(SequenceReference[R_co]):
    """What both kinds of handles know."""

    __slots__ = ("decode", "deduplicated")

    def __init__(
        self, id: str, decode: Decode | None = None, *, deduplicated: bool = False
    ) -> None:
        self.id = id  # who makes handles has checked it, or made it
        self.decode: Decode = decode or decode_plain
        self.deduplicated = deduplicated
        """It existed already under the same key; what was asked for was not started again."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"


class Sequence(Handle[R_co]):
    """A sequence that will yield an `R`."""

    __slots__ = ("_client",)

    def __init__(
        self,
        client: _Client,
        id: str,
        decode: Decode | None = None,
        *,
        deduplicated: bool = False,
    ) -> None:
        super().__init__(id, decode, deduplicated=deduplicated)
        self._client = client

    async def result(self, timeout: float | None = None) -> R_co:
        """Wait until it has ended. Raises WaitTimeout, SequenceFailed, SequenceCancelled."""
        return await self._client.wait(self, timeout=timeout)

    async def get(self) -> JobRecord:
        """Its current job, whose state is the sequence's."""
        return await self._client.current(self)


class BlockingSequence(Handle[R_co]):
    """A sequence that will yield an `R`, for callers without an event loop."""

    __slots__ = ("_client",)

    def __init__(
        self,
        client: _BlockingClient,
        id: str,
        decode: Decode | None = None,
        *,
        deduplicated: bool = False,
    ) -> None:
        super().__init__(id, decode, deduplicated=deduplicated)
        self._client = client

    def result(self, timeout: float | None = None) -> R_co:
        """Wait until it has ended. Raises WaitTimeout, SequenceFailed, SequenceCancelled."""
        return self._client.wait(self, timeout=timeout)

    def get(self) -> JobRecord:
        """Its current job, whose state is the sequence's."""
        return self._client.current(self)


def decoder_of(sequence: SequenceReference[Any]) -> Decode:
    return sequence.decode if isinstance(sequence, Handle) else decode_plain
