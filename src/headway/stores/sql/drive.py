"""Two loops that run an operation: one awaits its statements, the other blocks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from headway.ports.statement import Operation, Row, Statement

T = TypeVar("T")


async def drive(
    operation: Operation[T],
    execute: Callable[[Statement], Awaitable[Sequence[Row]]],
) -> T:
    """Run an operation to its end, sending each statement's rows back to it."""
    try:
        statement = next(operation)
        while True:
            statement = operation.send(await execute(statement))
    except StopIteration as end:
        answer: T = end.value
        return answer
    finally:
        operation.close()


def drive_sync(
    operation: Operation[T],
    execute: Callable[[Statement], Sequence[Row]],
) -> T:
    """The same, blocking."""
    try:
        statement = next(operation)
        while True:
            statement = operation.send(execute(statement))
    except StopIteration as end:
        answer: T = end.value
        return answer
    finally:
        operation.close()
