"""Part sim: simulated histories on both cores, by ranges of seeds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from proof.tools.part_run import PartRun

ROOT = Path(__file__).parents[2]
OPERATIONS = 5_000_000
LONGEST = 600.0
SHORT_SECONDS = 12.0
CORES = 2


def prove(run: PartRun) -> None:
    operations = OPERATIONS // CORES + 1
    seconds = SHORT_SECONDS if run.short else LONGEST
    runs = [_Run(run, core, operations, seconds) for core in range(CORES)]
    for each in runs:
        each.thread.join()
    sums: dict[str, Any] = {}
    for each in runs:
        for name, value in each.last.items():
            if isinstance(value, int) and name not in {"next seed", "done"}:
                sums[name] = sums.get(name, 0) + value
        run.check(
            each.process.wait() == 0, each.failure or f"core {each.core} ended without a word"
        )
    for name, value in sums.items():
        run.figure(name, value)
    slowest = max(each.last.get("longest to settle", 0.0) for each in runs)
    run.figure("longest to settle after the faults, virtual s", slowest)
    if not run.short:
        enough = sums.get("operations", 0) >= OPERATIONS
        run.check(enough, f"fewer than {OPERATIONS:,} operations in {LONGEST:.0f} s")


class _Run:
    """The simulations of one core, in a process of its own."""

    def __init__(self, run: PartRun, core: int, operations: int, seconds: float) -> None:
        self._run = run
        self.core = core
        self.last: dict[str, Any] = {}
        self.failure = ""
        command = [sys.executable, "-W", "ignore", "-m", "proof.simulation"]
        for name, value in (
            ("first", run.seed + core),
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
                self._run.say(f"core {self.core}: {counted}")
