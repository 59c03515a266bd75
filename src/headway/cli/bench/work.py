"""The work that is measured: a job that does nothing, with about 0.1 kB of input."""

from __future__ import annotations

import time

from headway.app import Headway

TEXT = "x" * 100


class Work:
    """The job types on an app; producers and workers each make one."""

    def __init__(self, app: Headway) -> None:
        self.app = app

        @app.job
        async def noop(n: int, text: str) -> None:
            pass

        @app.job
        async def clocked(sent: float) -> float:
            """Seconds since `sent`; the monotonic clock is the same for all processes."""
            return time.monotonic() - sent

        self.noop = noop
        self.clocked = clocked
