"""The limits of a queue: declared in code, overridden by operators, and what a store keeps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any, TypedDict

import msgspec
from msgspec import UNSET, UnsetType, structs

from headway.domain.limits.rate import Rate
from headway.domain.validation import check_key, check_kind, check_whole
from headway.errors import InvalidOption

MOST_RUNNING = 1_000_000
MOST_WEIGHT = 1_000
MOST_WEIGHTS = 10_000
"""Keys with a weight of their own."""


def _check_cap(name: str, value: int | None) -> None:
    if value is None:
        return
    check_whole(name, value)
    if value == 0:
        raise InvalidOption(f"{name} must be at least 1; to start nothing, pause the queue")
    if not 1 <= value <= MOST_RUNNING:
        raise InvalidOption(f"{name} is between 1 and {MOST_RUNNING:,}, not {value}")


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limits of a queue, which hold for all workers together."""

    running: int | None = None
    """Jobs that run at once; None: any number."""
    per_key: int | None = None
    """Jobs of one key that run at once."""
    rate: Rate | None = None
    fair: bool = False
    """Keys take turns."""
    weights: Mapping[str, int] = {}
    """Jobs that a key gets in its turn; 1 for the keys that are not named."""

    def __post_init__(self) -> None:
        _check_cap("running", self.running)
        _check_cap("per_key", self.per_key)
        if self.rate is not None:
            check_kind("rate", self.rate, Rate)
        if not isinstance(self.fair, bool):  # pyright: ignore[reportUnnecessaryIsInstance] - users may not check types
            raise InvalidOption(f"fair is True or False, not {self.fair!r}")
        if not isinstance(self.weights, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - users may not check types
            raise InvalidOption("weights are given as a mapping from keys to whole numbers")
        if self.weights and not self.fair:
            raise InvalidOption("weights need fair=True: without it keys do not take turns")
        if len(self.weights) > MOST_WEIGHTS:
            raise InvalidOption(f"at most {MOST_WEIGHTS:,} keys can have a weight")
        for key, weight in self.weights.items():
            check_key("key", key)
            check_whole(f"the weight of key {key!r}", weight)
            if not 1 <= weight <= MOST_WEIGHT:
                raise InvalidOption(
                    f"the weight of key {key!r} is between 1 and {MOST_WEIGHT:,}, not {weight}"
                )
        structs.force_setattr(self, "weights", dict(self.weights))

    @property
    def any(self) -> bool:
        """Whether claims differ from those of a queue without limits."""
        return self.fair or self.need_permits

    @property
    def need_permits(self) -> bool:
        """Whether claims must be counted, one after the other."""
        return self.running is not None or self.per_key is not None or self.rate is not None

    @property
    def by_key(self) -> bool:
        """Whether claims look at keys."""
        return self.fair or self.per_key is not None

    @property
    def fingerprint(self) -> str:
        return sha256(_encoder.encode(self)).hexdigest()[:32]

    def __str__(self) -> str:
        said: list[str] = []
        if self.running is not None:
            said.append(f"{self.running} running")
        if self.per_key is not None:
            said.append(f"{self.per_key} per key")
        if self.rate is not None:
            said.append(str(self.rate))
        if self.fair:
            some = [f"{key} {weight}" for key, weight in sorted(self.weights.items())[:4]]
            if len(self.weights) > 3:
                some[3] = "…"
            said.append(f"fair (weights: {', '.join(some)})" if some else "fair")
        return "; ".join(said) or "no limits"


class LimitsOverride(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limits that an operator has set. None: no limit; unset: as declared."""

    running: int | UnsetType | None = UNSET
    per_key: int | UnsetType | None = UNSET
    rate: Rate | UnsetType | None = UNSET

    def __post_init__(self) -> None:
        if self.running is not UNSET:
            _check_cap("running", self.running)
        if self.per_key is not UNSET:
            _check_cap("per_key", self.per_key)
        if self.rate is not UNSET and self.rate is not None:
            check_kind("rate", self.rate, Rate)

    @property
    def changes(self) -> dict[str, Any]:
        """The limits that are set, by name."""
        return {name: value for name, value in structs.asdict(self).items() if value is not UNSET}


class LimitOptions(TypedDict, total=False):
    """Options of `app.queue`."""

    running: int | None
    """Jobs of the queue that run at once, in all workers together."""
    per_key: int | None
    """Jobs of one key that run at once."""
    rate: Rate | None
    """Starts in a window of time."""
    fair: bool
    """Keys take turns, however many jobs each of them has waiting."""
    weights: Mapping[str, int]
    """Jobs that a key gets in its turn; 1 for the keys that are not named."""


class StoredLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What seldom changes, as a store keeps it: JSON in one column."""

    declared: QueueLimits = QueueLimits()
    replaced: tuple[str, ...] = ()
    """Fingerprints of earlier declarations, which do not come back."""
    override: LimitsOverride | None = None
    overridden_at: datetime | None = None
    """The last change of the override."""

    @property
    def effective(self) -> QueueLimits:
        """The declared limits, but for those that an operator has set."""
        if self.override is None:
            return self.declared
        return structs.replace(self.declared, **self.override.changes)


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as its store keeps it."""

    name: str
    paused_at: datetime | None = None
    limits: StoredLimits | None = None
    """None: the queue never had limits."""
    paid_until: datetime | None = None
    """The state of the rate: see `headway.domain.limits.rate`."""
    held_until: datetime | None = None
    """No job is started before; see `job.hold`."""
    held_keys: Mapping[str, datetime] = {}
    """The same by key."""
    refused: bool = False
    """A claim found no free permit since permits were last passed on."""

    @property
    def effective(self) -> QueueLimits:
        return NO_LIMITS if self.limits is None else self.limits.effective

    @property
    def limited(self) -> bool:
        """Whether claims of this queue must look at its limits."""
        return self.effective.any or self.held_until is not None or bool(self.held_keys)


NO_LIMITS = QueueLimits()
_encoder = msgspec.json.Encoder(order="sorted")
_decoder = msgspec.json.Decoder(StoredLimits)
_held = msgspec.json.Decoder(dict[str, datetime])


def encode_limits(limits: StoredLimits | None) -> str | None:
    return None if limits is None else _encoder.encode(limits).decode()


@lru_cache(256)
def decode_limits(text: str | None) -> StoredLimits | None:
    return None if text is None else _decoder.decode(text)


def encode_held_keys(held: Mapping[str, datetime]) -> str | None:
    return _encoder.encode(held).decode() if held else None


def decode_held_keys(text: str | None) -> Mapping[str, datetime]:
    return {} if text is None else _held.decode(text)
