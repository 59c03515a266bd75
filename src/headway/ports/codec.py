"""How values become text in the store and come back."""

from __future__ import annotations

from typing import Any, Protocol


class Coder(Protocol):
    """Encodes and decodes values of one type. Safe to use from any thread."""

    def encode(self, value: Any) -> str:
        """The value as text. Raises InvalidPayload, naming what is wrong, if `value` is not of the
        type or cannot be stored alike on every store (NaN, NUL, lone surrogates, integers beyond
        64 bits, more than the size limit)."""
        ...

    def decode(self, text: str) -> Any:
        """The value back. Raises InvalidPayload if the text does not fit the type."""
        ...


class Codec(Protocol):
    """Makes coders; called once per type, so that what can be prepared is prepared then."""

    def coder(self, type_: Any, *, what: str) -> Coder:
        """A coder for values of `type_`; `what` names the value in error messages."""
        ...
