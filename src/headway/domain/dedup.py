"""Deduplication: one key, one sequence."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

import msgspec

from headway.domain.names import check_key
from headway.domain.times import check_seconds
from headway.errors import InvalidOption


class Dedup(msgspec.Struct, frozen=True):
    """Start nothing if a sequence of the same job type with this key exists; hand out that one.

    `incomplete` looks only at sequences that have not ended yet, `any` at all that are kept.
    With a `window`, sequences created longer ago do not count. `but_not` names a sequence that
    does not count either: a job passes its own to schedule its successor under its own key.
    """

    key: str
    scope: Literal["incomplete", "any"] = "incomplete"
    window: timedelta | None = None
    but_not: str | None = None

    def __post_init__(self) -> None:
        check_key("deduplication key", self.key)
        if self.scope not in ("incomplete", "any"):
            raise InvalidOption(
                f"a deduplication scope is 'incomplete' or 'any', not {self.scope!r}"
            )
        if self.window is not None:
            if not isinstance(self.window, timedelta):  # pyright: ignore[reportUnnecessaryIsInstance] - users may not check types
                raise InvalidOption("a deduplication window must be a timedelta")
            check_seconds("a deduplication window", self.window)
