"""The piece of SQL that an operation asks for and a connection runs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, ParamSpec, TypeVar

import msgspec

P = ParamSpec("P")
T = TypeVar("T")

Row = Sequence[Any]


class Statement(msgspec.Struct, frozen=True, gc=False):
    """One statement and what it needs. Whoever runs it sends its rows back to the operation.

    `rows`, if given, holds one tuple per item of a batch: a store whose SQL takes arrays gets the
    columns of them before `params`, one whose SQL takes JSON gets them as one parameter. `alone`
    says that the statement is all that its verb does, or that it only reads: when the verb is run
    by itself, it needs no transaction around it.
    """

    sql: str
    params: tuple[Any, ...] = ()
    rows: Sequence[tuple[Any, ...]] | None = None
    alone: bool = False
    varied: bool = False
    """The best plan depends on the parameters, so it is not kept."""


Operation = Generator[Any, Any, T]
"""What a store does, as a generator: it yields what its runner must execute (a Statement, for SQL
stores; nothing at all for the memory store) and returns the answer. The same generator is driven
by an awaiting runner, a blocking one, or on a connection that the user owns."""


def reading(operation: Callable[P, Operation[T]]) -> Callable[P, Operation[T]]:
    """Mark an operation that changes nothing (unless it is asked to `lock`): a store may run it
    beside what is being written."""
    setattr(operation, "reads", True)  # noqa: B010 - functions declare no such attribute
    return operation


def only_reads(operation: Callable[..., Operation[Any]], lock: object) -> bool:
    """Whether an operation, called with this `lock`, changes nothing."""
    return not lock and getattr(operation, "reads", False) is True
