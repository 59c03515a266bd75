"""Two loops that run an operation: one awaits its statements, the other blocks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from headway.ports.statement import Operation

T = TypeVar("T")


async def drive(operation: Operation[T], execute: Callable[[Any], Awaitable[Any]]) -> T:
    """Run an operation to its end: execute its statements and send it the answers."""
    try:
        statement = next(operation)
        while True:
            statement = operation.send(await execute(statement))
    except StopIteration as end:
        answer: T = end.value
        return answer
    finally:
        operation.close()


def drive_sync(operation: Operation[T], execute: Callable[[Any], Any]) -> T:
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
