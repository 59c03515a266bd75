"""What travels with a job from who asked for it to who runs it: W3C trace contexts, as JSON."""

from __future__ import annotations

import msgspec


class Carried(msgspec.Struct, frozen=True, omit_defaults=True):
    traceparent: str
    """Of the span that created the job."""
    tracestate: str = ""
    sequence: str = ""
    """The traceparent of the span that started the job's sequence, if that is another one."""

    @property
    def trace_id(self) -> str:
        return self.traceparent[3:35]


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Carried)


def encode_carried(carried: Carried) -> str:
    return _encoder.encode(carried).decode()


def decode_carried(text: str | None) -> Carried | None:
    """None for what somebody else has put there."""
    if text is None:
        return None
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError:
        return None
