"""The error of a handler as it is stored: its traceback begins in the user's code."""

from __future__ import annotations

import inspect
import traceback
from types import FrameType, TracebackType
from typing import cast

from headway.errors import Failure

_NOT_THE_USERS = ("headway", "asyncio", "concurrent", "contextlib", "importlib")
"""Packages whose frames are left out before the first frame of another one."""


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
        trace = _formatted(error)
    except Exception:
        trace = ""
    return Failure(type_name(kind), message, trace)


def type_name(kind: type[BaseException]) -> str:
    """The name under which the error can be imported, as in the last line of tracebacks."""
    if kind.__module__ in ("builtins", "__main__"):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def users_part(trace: TracebackType | None, *also: str) -> TracebackType | None:
    """The traceback without the first frames, which are the worker's, the loop's and those of the
    packages given."""
    while trace is not None:
        package = str(trace.tb_frame.f_globals.get("__name__")).partition(".")[0]
        if package not in (*_NOT_THE_USERS, *also):
            break
        trace = trace.tb_next
    return trace


def _formatted(error: BaseException) -> str:
    shown = traceback.TracebackException(
        type(error), error, users_part(error.__traceback__), limit=-50, compact=True
    )
    _prepare_chain(error, shown)
    return "".join(shown.format())


def _prepare_chain(error: BaseException, shown: traceback.TracebackException) -> None:
    """Shorten the tracebacks of causes and contexts too, and leave out the program's own error."""
    outside = _frames_outside()
    pairs: list[tuple[BaseException | None, traceback.TracebackException | None]]
    pairs = [(error, shown)]
    while pairs:
        one, its_text = pairs.pop()
        if one is None or its_text is None:
            continue
        frames = sum(1 for _ in traceback.walk_tb(users_part(one.__traceback__)))
        if frames:
            del its_text.stack[:-frames]
        context = one.__context__
        caught_in = None if context is None else context.__traceback__
        if caught_in is not None and caught_in.tb_frame in outside:
            its_text.__context__ = None
        pairs += [(context, its_text.__context__), (one.__cause__, its_text.__cause__)]
        if isinstance(one, BaseExceptionGroup):
            group = cast("BaseExceptionGroup[BaseException]", one)
            pairs += zip(group.exceptions, its_text.exceptions or (), strict=False)


def _frames_outside() -> set[FrameType]:
    """The running frames of the program around the worker. It may run the worker in an `except`
    block: Python makes the error that the program handles there the context of each error of a
    handler. Such an error was caught in one of these frames. The worker's own frames catch the
    errors of handlers."""
    frames: set[FrameType] = set()
    frame = inspect.currentframe()
    while frame is not None:
        if not str(frame.f_globals.get("__name__")).startswith("headway.worker."):
            frames.add(frame)
        frame = frame.f_back
    return frames
