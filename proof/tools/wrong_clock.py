"""Makes the clock of a process wrong by the number of seconds in a file."""

from __future__ import annotations

import datetime
import os
import sys
import time
from typing import Any


def write_shift(path: str, seconds: float) -> None:
    """Shift the clocks of all processes that read this file."""
    with open(f"{path}.new", "w") as file:
        file.write(f"{seconds:020.3f}")
    os.replace(f"{path}.new", path)


def shift_clock(path: str) -> None:
    """Shift the wall clock of this process from now on; its monotonic clock stays right."""
    real_time, real_time_ns = time.time, time.time_ns

    def shift() -> float:
        with open(path) as file:
            return float(file.read())

    def shifted_time() -> float:
        return real_time() + shift()

    def shifted_time_ns() -> int:
        return real_time_ns() + round(shift() * 1e9)

    class ShiftedDatetime(datetime.datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.datetime.fromtimestamp(shifted_time(), tz)

    time.time = shifted_time
    time.time_ns = shifted_time_ns
    for name, module in list(sys.modules.items()):
        if name.startswith("headway.") and getattr(module, "datetime", None) is datetime.datetime:
            module.datetime = ShiftedDatetime  # type: ignore[attr-defined]
