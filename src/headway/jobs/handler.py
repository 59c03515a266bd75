"""Handlers: the function of a job type, with its mode, coders and retry policy."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headway.domain.retry import RetryPolicy
from headway.errors import ConfigurationError, InvalidPayload
from headway.jobs.codec import decode_plain


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
    """The implementation of a job type. Made once, when the job type is registered."""

    type: str
    function: Callable[..., Any]
    mode: Mode
    takes_job: bool
    """The first parameter is the Job."""
    atomic: bool
    """The whole handler runs in one transaction."""
    retry: RetryPolicy
    decode_input: Callable[[str], tuple[tuple[Any, ...], dict[str, Any]]]
    """Stored input to positional and keyword arguments. Raises InvalidPayload."""
    encode_output: Callable[[Any], str | None]
    """Returned value to stored output; None stays None. Raises InvalidPayload."""
    blocker_decoders: tuple[Callable[[str | None], Any], ...] | None = None
    """One for each declared blocker; None: the outputs are plain JSON values."""
    any_number: bool = False
    """The last of `blocker_decoders` stands for any number of blockers."""
    reference: str | None = None
    """`module:qualified.name` of the function. A child process imports the module and finds the
    handler in `isolated`."""

    def __post_init__(self) -> None:
        if self.atomic and self.mode is not Mode.LOOP:
            raise ConfigurationError(
                f"job type {self.type!r} cannot be atomic: its transaction lives on the event loop,"
                " so its handler must be `async def` and not isolated"
            )
        if self.mode is Mode.PROCESS and self.reference is not None:
            isolated[self.reference] = self

    def decode_blockers(self, outputs: Sequence[str | None]) -> tuple[Any, ...]:
        """The results of the blockers. Raises InvalidPayload if one does not fit its type."""
        decoders = self.blocker_decoders
        if decoders is None:
            return tuple(decode_plain(output) for output in outputs)
        if self.any_number:
            fixed = len(decoders) - 1
            decoders = decoders[:fixed] + decoders[fixed:] * (len(outputs) - fixed)
        if len(decoders) != len(outputs):
            raise InvalidPayload(
                f"the job was started with {len(outputs)} blockers, "
                f"its handler takes {len(decoders)}"
            )
        return tuple(decode(output) for decode, output in zip(decoders, outputs, strict=True))


isolated: Final[dict[str, Handler]] = {}
"""The handlers that run in child processes, by reference. Filled while modules are imported."""
