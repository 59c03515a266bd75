"""The work that is measured: a no-op job with a payload of about 0.1 kB."""

from __future__ import annotations

import time

from headway import Headway

TEXT = "x" * 100


class Work:
    def __init__(self, dsn: str) -> None:
        self.app = Headway(dsn, migrate=True)

        @self.app.job
        async def noop(n: int, text: str) -> None:
            pass

        @self.app.job
        async def clocked(sent: float) -> float:
            return time.monotonic() - sent

        self.noop = noop
        self.clocked = clocked
