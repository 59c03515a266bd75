"""Tasks that the tests enqueue."""

from __future__ import annotations

from typing import Any

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task

ran: list[Any] = []


@task
def echo(*args: Any, **kwargs: Any) -> Any:
    ran.append(args[0] if args else None)
    return [list(args), kwargs]


@task
async def later(number: int) -> int:
    return number + 1


@task
def fail() -> None:
    raise ZeroDivisionError("on purpose")


@task
async def fail_on_a_loop() -> None:
    raise ZeroDivisionError("on purpose")


@task(backend="patient", takes_context=True)
def third_time(context: Any) -> list[Any]:
    if context.attempt < 3:
        raise LookupError("not yet")
    return [context.attempt, context.task_result.id]


@task
def unspeakable() -> object:
    return object()
