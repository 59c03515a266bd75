"""A failure as it is stored: type, message and traceback of what a handler raised, as JSON."""

from __future__ import annotations

import msgspec

MAX_MESSAGE = 2_000
MAX_TRACEBACK = 16_000


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    type: str
    message: str
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Failure)


def encode_failure(failure: Failure) -> str:
    """Cut to bounds, cleaned of what a database refuses (NUL, unpaired surrogates), encoded."""
    return _encoder.encode(
        Failure(
            _storable(failure.type, MAX_MESSAGE),
            _storable(failure.message, MAX_MESSAGE),
            _storable(failure.traceback, MAX_TRACEBACK),
        )
    ).decode()


def decode_failure(text: str) -> Failure:
    """The failure, or one that quotes the text if it was written by something else."""
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError:
        return Failure("Error", text[:MAX_MESSAGE])


def _storable(text: str, limit: int) -> str:
    clean = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    clean = clean.encode("utf-8", "replace").decode("utf-8")
    if len(clean) <= limit:
        return clean
    half = limit // 2
    return f"{clean[:half]}\n… {len(clean) - limit} characters left out …\n{clean[-half:]}"
