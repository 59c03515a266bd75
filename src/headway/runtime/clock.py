"""The clock of production: the store's own for what is stored, this machine's for deadlines."""

from __future__ import annotations

import time
from datetime import datetime


class SystemClock:
    def now(self) -> datetime | None:
        return None

    def monotonic(self) -> float:
        return time.monotonic()
