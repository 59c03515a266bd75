"""The number of this process among those of `headway worker --processes`."""

from __future__ import annotations

import os

VARIABLE = "HEADWAY_PROCESS"
"""Set for each of several worker processes: its number, from 1."""


def process_number() -> int:
    """1 also for a process that has no siblings."""
    return int(os.environ.get(VARIABLE, "1"))
