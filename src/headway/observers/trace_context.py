"""The W3C trace context that a job carries from its start to its attempts, as JSON."""

from __future__ import annotations

import msgspec


class TraceContext(msgspec.Struct, frozen=True, omit_defaults=True):
    traceparent: str
    """The span that created the job."""
    tracestate: str = ""
    sequence: str = ""
    """The traceparent of the span that started the job's sequence, if it is another span."""

    @property
    def trace_id(self) -> str:
        return self.traceparent[3:35]


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(TraceContext)


def encode_trace(context: TraceContext) -> str:
    return _encoder.encode(context).decode()


def decode_trace(text: str | None) -> TraceContext | None:
    """None for text that Headway did not write."""
    if text is None:
        return None
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError:
        return None
