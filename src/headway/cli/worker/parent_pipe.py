"""A process that was started by another one of ours stops when that one is gone, however it ended.

The parent has one end of a pipe, and nobody else has that end. When the parent dies, the kernel
closes it, and its children read that the pipe has ended.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping

PIPE = "HEADWAY_PARENT_PIPE"
"""Set for a child: the number of its end of the pipe."""


class Parent:
    """The parent's end of a pipe, open while the parent lives."""

    def __init__(self) -> None:
        self.child_end, self._own_end = os.pipe()  # neither is inherited unless it is passed on

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """For a child that is given `child_end`."""
        return {**environment, PIPE: str(self.child_end)}


def when_orphaned(call: Callable[[], None]) -> None:
    """Call it on the running loop when the parent is gone, if a parent passed its pipe."""
    number = os.environ.pop(PIPE, "")  # it is of no use to processes that are started from here
    if not number:
        return
    loop = asyncio.get_running_loop()
    end = int(number)
    os.set_inheritable(end, False)

    def gone() -> None:
        loop.remove_reader(end)
        os.close(end)
        call()

    loop.add_reader(end, gone)
