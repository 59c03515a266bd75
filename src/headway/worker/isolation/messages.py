"""Messages between a worker and its child processes: msgpack, each message after its length.

Values that msgpack cannot hold are converted before they are sent.
"""

from __future__ import annotations

import struct
from typing import Any, TypeGuard

import msgspec

from headway.domain.due_time import After, At
from headway.domain.job import ClaimedJob
from headway.domain.request import (
    AnyRequest,
    ContinuationRequest,
    Dedup,
    Options,
    Request,
    SequenceReference,
)
from headway.errors import Failure

length = struct.Struct("!I")
"""The length before each message."""


class Order(msgspec.Struct, frozen=True):
    """To the child: run this."""

    reference: str
    claimed: ClaimedJob
    blockers: list[str | None] | None
    worker: str
    trace_id: str | None
    rated: bool
    """The queue has a rate."""
    log_level: int


class SentOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of Options."""

    queue: str
    priority: int
    max_attempts: int | None
    max_losses: int
    timeout: float | None
    schedule: At | float
    """A float: seconds from the moment at which the job is stored."""
    dedup: Dedup | None
    key: str | None


class SentRequest(msgspec.Struct, frozen=True):
    """A ContinuationRequest, or a Request if it can begin a sequence (`starts`)."""

    starts: bool
    type: str
    input: str
    options: SentOptions
    needs: int | None
    blockers: list[SentRequest | str]
    """A text is the id of a sequence."""
    id: str | None


class Returned(msgspec.Struct, frozen=True, tag=True):
    output: str | None


class Continued(msgspec.Struct, frozen=True, tag=True):
    request: SentRequest


class Rescheduled(msgspec.Struct, frozen=True, tag=True):
    schedule: At | float


class HeldQueue(msgspec.Struct, frozen=True, tag=True):
    schedule: At | float
    key: bool


class Raised(msgspec.Struct, frozen=True, tag=True):
    failure: Failure
    recoverable: bool


class Logged(msgspec.Struct, frozen=True, tag=True):
    """The fields of a LogRecord."""

    fields: dict[str, Any]


class Told(msgspec.Struct, frozen=True, tag=True):
    """How far a handler is."""

    job_id: str
    progress: tuple[float, str]


class Spent(msgspec.Struct, frozen=True, tag=True):
    """What a handler spent against the rate of its queue."""

    job_id: str
    weight: int


Outcome = Returned | Continued | Rescheduled | HeldQueue | Raised
"""The last that is said of an order."""
Message = Outcome | Logged | Told | Spent

encode = msgspec.msgpack.Encoder().encode
decode_order = msgspec.msgpack.Decoder(Order).decode
_messages: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
decode_message = _messages.decode


def framed(text: bytes) -> bytes:
    """A message as it is sent."""
    return length.pack(len(text)) + text


def encodable(text: str) -> str:
    """The text, with a sign for each unpaired surrogate."""
    return text.encode("utf-8", "replace").decode()


def raised(failure: Failure, *, recoverable: bool) -> Raised:
    type, message, trace = map(encodable, (failure.type, failure.message, failure.traceback))
    return Raised(Failure(type, message, trace), recoverable)


def sent_schedule(schedule: At | After) -> At | float:
    return schedule if isinstance(schedule, At) else schedule.seconds


def received_schedule(schedule: At | float) -> At | After:
    return schedule if isinstance(schedule, At) else After(seconds=schedule)


def sent_request(request: AnyRequest) -> SentRequest:
    """The request without its decoder, which cannot leave this process."""
    options = msgspec.structs.asdict(request.options)
    options["schedule"] = sent_schedule(request.options.schedule)
    return SentRequest(
        isinstance(request, Request),
        request.type,
        request.input,
        SentOptions(**options),
        request.needs,
        [_sent_blocker(blocker) for blocker in request.blockers],
        request.id,
    )


def _sent_blocker(blocker: Any) -> SentRequest | str:
    if _is_request(blocker):
        return sent_request(blocker)
    return blocker.id if isinstance(blocker, SequenceReference) else str(blocker)


def _is_request(value: object) -> TypeGuard[AnyRequest]:
    return isinstance(value, ContinuationRequest)


def received_request(sent: SentRequest) -> ContinuationRequest[Any]:
    options = msgspec.structs.asdict(sent.options)
    options["schedule"] = received_schedule(sent.options.schedule)
    return (Request[Any] if sent.starts else ContinuationRequest[Any])(
        sent.type,
        sent.input,
        Options(**options),
        needs=sent.needs,
        blockers=tuple(
            received_request(each) if isinstance(each, SentRequest) else each
            for each in sent.blockers
        ),
        id=sent.id,
    )
