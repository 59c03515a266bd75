"""Statements and operations: an operation yields statements, a connection runs them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, ParamSpec, TypeVar

import msgspec

P = ParamSpec("P")
T = TypeVar("T")

Row = Sequence[Any]


class Statement(msgspec.Struct, frozen=True, gc=False):
    """One SQL statement with its parameters. The runner sends its rows back to the operation.

    `rows`, if given, holds one tuple per item of a batch: as arrays of their columns before
    `params` where the SQL takes arrays, as one JSON parameter where it takes JSON. `alone`: the
    statement is the only one of its operation, or only reads, so outside of a caller's transaction
    it needs none.
    """

    sql: str
    params: tuple[Any, ...] = ()
    rows: Sequence[tuple[Any, ...]] | None = None
    alone: bool = False
    varied: bool = False
    """The best plan depends on the parameters, so the statement is not prepared."""


Operation = Generator[Any, Any, T]
"""A store's operation as a generator: it yields what its runner executes (Statements for SQL
stores, nothing for the memory store) and returns the answer. An async runner, a sync runner and a
connection of the user can all run the same generator."""


def reading(operation: Callable[P, Operation[T]]) -> Callable[P, Operation[T]]:
    """Mark an operation that changes nothing (unless called with `lock`): a store may run it
    concurrently with writes."""
    setattr(operation, "reads", True)  # noqa: B010 - functions declare no such attribute
    return operation


def atomic_from_lock(operation: Callable[P, Operation[T]]) -> Callable[P, Operation[T]]:
    """Mark an operation of several verbs that is atomic from its first lock on: without a lock, a
    store may run each of its statements by itself."""
    setattr(operation, "atomic_from_lock", True)  # noqa: B010 - functions declare no such attribute
    return operation


def only_reads(operation: Callable[..., Operation[Any]], lock: object) -> bool:
    """Whether an operation, called with this `lock`, changes nothing."""
    return not lock and getattr(operation, "reads", False) is True
