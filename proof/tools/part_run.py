"""One run of a part: its settings, and the figures and failures it reports."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class PartRun:
    """Collects figures, failures, and what could not be verified."""

    part: str
    seed: int
    short: bool
    minutes: float = 60.0
    """Length of the part limit_load."""
    figures: dict[str, Any] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    not_verified: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        seconds = time.monotonic() - self.began
        print(f"{self.part:>9} {seconds:6.1f} s  {text}", file=sys.stderr, flush=True)

    def figure(self, name: str, value: Any) -> None:
        self.figures[name] = value
        self.say(f"{name}: {value}")

    def fail(self, text: str) -> None:
        self.failures.append(text)
        self.say(f"FAILED: {text}")

    def check(self, holds: bool, text: str) -> bool:
        if not holds:
            self.fail(text)
        return holds

    def leave_out(self, text: str) -> None:
        self.not_verified.append(text)
        self.say(f"NOT VERIFIED: {text}")

    def report(self) -> dict[str, Any]:
        return {
            "ok": not self.failures,
            "seed": self.seed,
            "seconds": round(time.monotonic() - self.began, 1),
            "figures": self.figures,
            "failures": self.failures,
            "not verified": self.not_verified,
        }


Part = Callable[[PartRun], None]
