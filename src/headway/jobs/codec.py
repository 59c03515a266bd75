"""The JSON codec, by msgspec. It refuses values that a store could not give back unchanged.

Encoding searches the bytes first. Only if they may hold a refused value does it walk through the
value, to find the place and name it.
"""

from __future__ import annotations

import math
import re
import sys
from typing import Any

import msgspec

from headway.errors import ConfigurationError, InvalidOption, InvalidPayload
from headway.jobs.storable_types import check_storable, is_model
from headway.ports.codec import Coder

MIB = 1 << 20
_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1
_DIGITS = bytes(0x30 if 0x30 <= byte <= 0x39 else byte for byte in range(256))
_NINETEEN_DIGITS = b"0" * 19
_PLACE = re.compile(r"(?P<problem>.*?)(?: - at `(?:key in )?\$(?P<path>.*)`)?", re.DOTALL)
_QUOTED_VALUE = re.compile(r"^(Invalid (?:enum )?value) .*", re.DOTALL)


class JsonCodec:
    """Stores values as JSON text of at most `limit` bytes."""

    def __init__(self, limit: int = MIB) -> None:
        if limit < 2:
            raise InvalidOption(f"a codec's limit must be at least 2 bytes, not {limit}")
        self.limit = limit

    def coder(self, type_: Any, *, what: str) -> Coder:
        try:
            check_storable(type_)
            return JsonCoder(type_, what=what, limit=self.limit)
        except Exception as error:  # annotations inside the type may raise anything
            raise ConfigurationError(f"{what} cannot be stored as JSON: {error}") from error


class JsonCoder:
    """Values of one type to JSON text and back."""

    __slots__ = ("_decode", "_encode", "_limit", "_typed", "_what")

    def __init__(self, type_: Any, *, what: str, limit: int) -> None:
        self._what = what
        self._limit = limit
        self._encode = msgspec.json.Encoder(enc_hook=_to_builtins).encode
        self._decode = msgspec.json.Decoder(type_, dec_hook=_from_builtins).decode
        self._typed = type_ is not Any

    def encode(self, value: Any) -> str:
        try:
            encoded = self._encode(value)
        except InvalidPayload as error:
            raise InvalidPayload(f"{self._what}: {error}") from None
        except UnicodeEncodeError:
            raise InvalidPayload(
                f"{self._what} holds an unpaired surrogate character, which is not valid text"
            ) from None
        except RecursionError:
            raise InvalidPayload(f"{self._what} is nested too deeply") from None
        except Exception as error:
            raise InvalidPayload(f"{self._what} cannot be encoded as JSON: {error}") from error
        if len(encoded) > self._limit:
            raise InvalidPayload(
                f"{self._what} takes {len(encoded):,} bytes as JSON and the limit is "
                f"{self._limit:,}; store it elsewhere and pass a reference"
            )
        if (
            b"null" in encoded
            or b"\\u0000" in encoded
            or _NINETEEN_DIGITS in encoded.translate(_DIGITS)
        ):
            self._walk(value)
        if self._typed:
            self._read(encoded)
        return encoded.decode()

    def decode(self, text: str) -> Any:
        return self._read(text)

    def _read(self, encoded: bytes | str) -> Any:
        try:
            return self._decode(encoded)
        except msgspec.ValidationError as error:
            raise InvalidPayload(self._explain(str(error))) from None
        except msgspec.DecodeError as error:
            raise InvalidPayload(f"{self._what} is not valid JSON: {error}") from None
        except RecursionError:
            raise InvalidPayload(f"{self._what} is nested too deeply") from None

    def _explain(self, message: str) -> str:
        """msgspec's message with the place first, and without the value."""
        match = _PLACE.fullmatch(message)
        if match is None:
            return f"{self._what}: {message}"
        problem = _QUOTED_VALUE.sub(r"\1", match["problem"])
        problem = problem[:1].lower() + problem[1:].replace("`", "")
        path = (match["path"] or "").removeprefix(".")
        return f"{self._what}, at {path}: {problem}" if path else f"{self._what}: {problem}"

    def _walk(self, value: Any) -> None:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_to_builtins)
        problem = _find_problem(plain, "")
        if problem:
            path, sentence = problem
            path = path.removeprefix(".")
            raise InvalidPayload(f"{self._what}{f', at {path}' if path else ''}: {sentence}")


def decode_plain(output: str | None) -> Any:
    """An output of an unknown type, as plain JSON values."""
    if output is None:
        return None
    try:
        return msgspec.json.decode(output)
    except msgspec.DecodeError as error:
        raise InvalidPayload(f"an output is not valid JSON: {error}") from None


def _find_problem(value: Any, path: str) -> tuple[str, str] | None:
    """The first place that holds a refused value, and why; `value` consists of builtins."""
    kind = value.__class__
    if kind is float and not math.isfinite(value):
        return path, "NaN and infinity have no place in JSON; use None or a string"
    if kind is int and not _SMALLEST <= value <= _LARGEST:
        return path, "an integer beyond 64 bits cannot be stored; use a string"
    if kind is str and "\0" in value:
        return path, "a NUL character cannot be stored; remove it, or pass bytes"
    if kind is dict:
        for key, item in value.items():
            problem = _find_problem(key, path) or _find_problem(item, f"{path}.{key}")
            if problem:
                return problem
    elif kind is list or kind is tuple:
        for index, item in enumerate(value):
            problem = _find_problem(item, f"{path}[{index}]")
            if problem:
                return problem
    return None


def _to_builtins(value: Any) -> Any:
    """Values of types that msgspec does not know: pydantic models, subclasses of builtins."""
    if is_model(type(value)):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, str):  # of a subclass, such as the safe strings of template engines
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise InvalidPayload(f"a value of type {type(value).__qualname__} cannot be encoded as JSON")


def _from_builtins(type_: Any, value: Any) -> Any:
    if is_model(type_):
        pydantic: Any = sys.modules["pydantic"]
        model: Any = type_
        try:
            return model.model_validate_json(msgspec.json.encode(value))
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise ValueError(f"{place}: {first['msg']}" if place else first["msg"]) from None
    return value  # annotated as `object` or the like
