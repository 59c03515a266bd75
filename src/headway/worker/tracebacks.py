"""The error of a handler as it is stored: its traceback begins in the user's code."""

from __future__ import annotations

import asyncio
import os
import traceback
from types import TracebackType

from headway.errors import Failure
from headway.jobs import codec

_NOT_THE_USERS = tuple(
    os.path.dirname(str(file)) + os.sep for file in (__file__, codec.__file__, asyncio.__file__)
)


class HandlerFailed(Exception):
    """A failure that a child process, or the worker itself, has described."""

    def __init__(self, failure: Failure, *, recoverable: bool = True) -> None:
        self.failure = failure
        self.recoverable = recoverable
        super().__init__(str(failure))


def describe(error: BaseException) -> Failure:
    """The error's type, message and traceback. Never raises."""
    kind = type(error)
    try:
        message = str(error)
    except Exception:
        message = "(its message could not be made)"
    try:
        trace = "".join(
            traceback.format_exception(kind, error, _users_part(error.__traceback__), limit=-50)
        )
    except Exception:
        trace = ""
    return Failure(type_name(kind), message, trace)


def type_name(kind: type[BaseException]) -> str:
    """The name under which the error can be imported, as in the last line of tracebacks."""
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _users_part(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the first frames, which are the worker's and the loop's."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        trace = trace.tb_next
    return trace
