"""Encoding of values as text for the store, and decoding."""

from __future__ import annotations

from typing import Any, Protocol


class Coder(Protocol):
    """Encodes and decodes values of one type. Thread-safe."""

    def encode(self, value: Any) -> str:
        """The value as text. Raises InvalidPayload with the reason if `value` does not have the
        type, or if some store could not hold it (NaN, NUL, lone surrogates, integers beyond 64
        bits, more than the size limit)."""
        ...

    def decode(self, text: str) -> Any:
        """The value. Raises InvalidPayload if the text does not fit the type."""
        ...


class Codec(Protocol):
    """Makes coders; called once per type, so preparation belongs here."""

    def coder(self, type_: Any, *, what: str) -> Coder:
        """A coder for values of `type_`; `what` names the value in error messages."""
        ...
