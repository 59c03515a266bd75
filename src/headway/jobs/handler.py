"""What a worker must know of a job type to run it: the function, and what is prepared once."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from headway.domain.retry import RetryPolicy
from headway.errors import ConfigurationError


class Mode(enum.Enum):
    """Where a handler runs."""

    LOOP = "loop"
    """`async def`, on the worker's event loop."""
    THREAD = "thread"
    """`def`, in a thread."""
    PROCESS = "process"
    """`isolate=True`: in a process that can be killed."""


@dataclass(frozen=True, slots=True)
class Handler:
    """A job type's implementation. Made once, when the job type is registered."""

    type: str
    function: Callable[..., Any]
    mode: Mode
    takes_job: bool
    """The first parameter is the Job."""
    atomic: bool
    """The whole handler runs in one transaction."""
    retry: RetryPolicy
    arguments: Callable[[str], tuple[tuple[Any, ...], dict[str, Any]]]
    """Encoded input to positional and keyword arguments; raises InvalidPayload."""
    encode_output: Callable[[Any], str | None]
    """Returned value to stored output (None for None); raises InvalidPayload."""
    blocker_decoders: tuple[Callable[[str | None], Any], ...] | None = None
    """One per declared blocker; None: decode each output as plain JSON values."""
    any_number: bool = False
    """The last of `blocker_decoders` stands for any number of blockers."""
    reference: str | None = None
    """`module:qualified.name` of the function: a child process imports the module, and finds the
    handler in `isolated`."""

    def __post_init__(self) -> None:
        if self.atomic and self.mode is not Mode.LOOP:
            raise ConfigurationError(
                f"job type {self.type!r} cannot be atomic: its transaction lives on the event loop,"
                " so its handler must be `async def` and not isolated"
            )
        if self.mode is Mode.PROCESS and self.reference is not None:
            isolated[self.reference] = self


isolated: Final[dict[str, Handler]] = {}
"""The handlers that run in child processes, by reference, filled while modules are imported."""
