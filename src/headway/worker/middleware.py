"""The onion around a handler. Outermost is the worker's own recovery, then the timeout; within
them the user's layers, in the order in which they were given; innermost the handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from headway.jobs.job import Job

CallNext = Callable[[], Awaitable[Any]]

Middleware = Callable[[Job[*tuple[Any, ...]], CallNext], Awaitable[Any]]
"""`async def layer(job, call_next)`: what it returns is what the handler is taken to have
returned, and what it raises fails the job. It runs on the worker's event loop, wherever the
handler itself runs."""


def wrap(layers: Sequence[Middleware], job: Job[*tuple[Any, ...]], handler: CallNext) -> CallNext:
    """The handler's call with all layers around it."""
    call = handler
    for layer in reversed(layers):
        call = partial(layer, job, call)
    return call
