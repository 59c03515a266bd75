"""Kinds of errors that stores raise, and their text for logs and events."""

from __future__ import annotations

from headway.errors import DataRefused, InvalidRequest, StoreUnreachable


def is_transient(error: BaseException) -> bool:
    """Whether the store is away: nothing can be stored now."""
    return isinstance(error, (StoreUnreachable, OSError))


def is_refusal(error: BaseException) -> bool:
    """Whether the data is at fault. No other error is the fault of a job."""
    return isinstance(error, (DataRefused, InvalidRequest))


def in_short(error: BaseException) -> str:
    """The first line of the error: databases quote rows, with their payloads, in the others."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]
