"""Part sim: simulated histories on both cores, by ranges of seeds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from proof.tools.report import Trial

ROOT = Path(__file__).parents[2]
OPERATIONS = 5_000_000
LONGEST = 600.0
SHORT_SECONDS = 25.0
CORES = 2


def prove(trial: Trial) -> None:
    operations = OPERATIONS // CORES + 1
    seconds = SHORT_SECONDS if trial.short else LONGEST
    runs = [_Run(trial, core, operations, seconds) for core in range(CORES)]
    for run in runs:
        run.thread.join()
    sums: dict[str, Any] = {}
    for run in runs:
        for name, value in run.last.items():
            if isinstance(value, int) and name not in {"next seed", "done"}:
                sums[name] = sums.get(name, 0) + value
        trial.check(run.process.wait() == 0, run.failure or f"core {run.core} ended without a word")
    for name, value in sums.items():
        trial.figure(name, value)
    slowest = max(run.last.get("longest to settle", 0.0) for run in runs)
    trial.figure("longest to settle after the faults, virtual s", slowest)
    if not trial.short:
        enough = sums.get("operations", 0) >= OPERATIONS
        trial.check(enough, f"fewer than {OPERATIONS:,} operations in {LONGEST:.0f} s")


class _Run:
    """The simulations of one core, in a process of its own."""

    def __init__(self, trial: Trial, core: int, operations: int, seconds: float) -> None:
        self._trial = trial
        self.core = core
        self.last: dict[str, Any] = {}
        self.failure = ""
        command = [sys.executable, "-W", "ignore", "-m", "proof.simulation"]
        for name, value in (
            ("first", trial.seed + core),
            ("stride", CORES),
            ("operations", operations),
            ("seconds", seconds),
        ):
            command += [f"--{name}", str(value)]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": "0"},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.thread = threading.Thread(target=self._listen)
        self.thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for number, line in enumerate(self.process.stdout):
            said = json.loads(line)
            if "failed" in said:
                self.failure = json.dumps(said)
                continue
            self.last = said
            if number % 8 == 0:
                counted = ", ".join(f"{value:,} {name}" for name, value in said.items())
                self._trial.say(f"core {self.core}: {counted}")
