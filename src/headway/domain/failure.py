"""Failures: their JSON in the store, and fingerprints that group them."""

from __future__ import annotations

import re
from hashlib import blake2s

import msgspec

from headway.errors import Failure

FINGERPRINT = 12
"""Hexadecimal digits."""

MAX_MESSAGE = 2_000
MAX_TRACEBACK = 16_000

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Failure)


def encode_failure(failure: Failure) -> str:
    """As JSON, cut to the maximum length, without NUL and unpaired surrogates."""
    return _encoder.encode(
        Failure(
            storable(failure.type, MAX_MESSAGE),
            storable(failure.message, MAX_MESSAGE),
            storable(failure.traceback, MAX_TRACEBACK),
        )
    ).decode()


def decode_failure(text: str) -> Failure:
    """The failure; text that is not one of ours becomes its message."""
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError:
        return Failure("Error", text[:MAX_MESSAGE])


_FRAME = re.compile(
    r'^ *File "(?P<file>[^"\n]*)", line \d+, in (?P<function>.*)\n(?P<code>.*)', re.M
)
_VARYING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|\d+|'[^'\n]*'|\"[^\"\n]*\"", re.I)


def fingerprint(job_type: str, failure: Failure) -> str:
    """Equal for failures of one job type with the same exception from the same line of code or,
    without a traceback, with the same message except for numbers and quotations.

    The line counts by its text, the file by its last two names, so that a deployment that moves
    them does not make a new group of an old failure.
    """
    frames = list(_FRAME.finditer(failure.traceback))
    if frames:
        last = frames[-1]
        file = "/".join(last["file"].replace("\\", "/").split("/")[-2:])
        what = f"{file}\n{last['function']}\n{last['code'].strip()}"
    else:
        what = _VARYING.sub("#", failure.message[:MAX_MESSAGE])
    text = "\n".join((job_type, failure.type, what))
    return blake2s(text.encode("utf-8", "replace"), digest_size=FINGERPRINT // 2).hexdigest()


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type: databases quote rows in the others."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def storable(text: str, limit: int) -> str:
    """The text without NUL and unpaired surrogates, cut in the middle if it is too long."""
    clean = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    clean = clean.encode("utf-8", "replace").decode("utf-8")
    if len(clean) <= limit:
        return clean
    half = limit // 2
    return f"{clean[:half]}\n… {len(clean) - limit} characters left out …\n{clean[-half:]}"
