"""How quiet the machine was: every figure carries it, so that a noisy one can be told."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.peers.processes import TICKS, all_processes, cpu_seconds, tree


def fsync_rate(seconds: float = 0.2) -> float:
    """How often per second 8 kB reach the disk."""
    with tempfile.TemporaryFile() as file:
        block = bytes(8192)
        count, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds:
            os.pwrite(file.fileno(), block, 0)
            os.fdatasync(file.fileno())
            count += 1
        return count / (time.perf_counter() - began)


def _stolen() -> float:
    """CPU seconds that the hypervisor gave to others."""
    return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[8]) / TICKS


def _others() -> dict[int, float]:
    """CPU seconds of every process that we did not start."""
    ours = tree({os.getpid()})
    return {pid: cpu_seconds(pid) for pid in all_processes() if pid not in ours}


@contextmanager
def listening() -> Iterator[dict[str, float]]:
    """Fills the given dictionary when the block ends; shares are of one core."""
    noise: dict[str, float] = {"fsyncs per second": round(fsync_rate())}
    began, stolen, others = time.monotonic(), _stolen(), _others()
    try:
        yield noise
    finally:
        took = time.monotonic() - began
        used = sum(now - others.get(pid, 0.0) for pid, now in _others().items())
        noise["stolen"] = round((_stolen() - stolen) / took, 3)
        noise["others"] = round(used / took, 3)
