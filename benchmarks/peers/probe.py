"""What every handler calls. It costs well under a microsecond and never touches a queue's store.

Each process maps a file of its own: the time of the first handler, of the last, and their number.
The latency measurement adds a file with one time per job. The monotonic clock is the system's, so
times of several processes compare.
"""

from __future__ import annotations

import itertools
import mmap
import os
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.location import Location

_HEAD = struct.Struct("ddd")


@dataclass(frozen=True)
class Seen:
    first: float
    last: float
    count: int


class Probe:
    """The probe from outside: made empty before a measurement, read during it."""

    def __init__(self, location: Location) -> None:
        self._folder = Path(location.folder) / "probe"
        self._slots = self._folder / "slots"
        self._gate = self._folder / "gate"
        self._count = location.slots

    def reset(self) -> None:
        self._folder.mkdir(exist_ok=True)
        for path in self._folder.iterdir():
            path.unlink()
        self._slots.write_bytes(bytes(8 * self._count))

    def ready(self) -> int:
        """How many workers wait at the gate."""
        return len(list(self._folder.glob("ready-*")))

    def open_gate(self) -> None:
        self._gate.touch()

    def wait_at_gate(self) -> None:
        """Workers wait here with everything imported, so that two of them start together."""
        (self._folder / f"ready-{os.getpid()}").touch()
        while not self._gate.exists():
            time.sleep(0.002)

    def read(self) -> Seen:
        heads = [
            _HEAD.unpack(path.read_bytes()[: _HEAD.size]) for path in self._folder.glob("seen-*")
        ]
        began = [head for head in heads if head[2]]
        if not began:
            return Seen(0.0, 0.0, 0)
        first = min(head[0] for head in began)
        return Seen(first, max(head[1] for head in began), int(sum(head[2] for head in began)))

    def times(self) -> list[float]:
        """When each job began, 0.0 for those that did not."""
        return list(struct.unpack(f"{self._count}d", self._slots.read_bytes()))


def _make(location: Location) -> dict[str, Callable[[int], None]]:
    """The probe of this process; made of as little as possible, as it is measured with the rest.

    Without a lock, threads that are very close may write a count that is one too low until the
    next one writes; whoever reads bears that.
    """
    folder = Path(location.folder) / "probe"
    path = folder / f"seen-{os.getpid()}"
    whole = path.with_name(f"new-{os.getpid()}")
    whole.write_bytes(bytes(_HEAD.size))
    whole.rename(path)  # never seen without its content
    head = _map(path, _HEAD.size)
    write, now, first = _HEAD.pack_into, time.monotonic, 0.0
    counter, total = itertools.count(1), 0

    def add(number: int) -> None:
        nonlocal first, total
        moment = now()
        first = first or moment
        total += number
        write(head, 0, first, moment, total)

    def hit(_: int) -> None:
        nonlocal first
        moment = now()
        first = first or moment
        write(head, 0, first, moment, next(counter))

    if not location.slots:
        return {"hit": hit, "add": add}
    slots = _map(folder / "slots", 8 * location.slots)
    write_slot = struct.Struct("d").pack_into

    def hit_slot(n: int) -> None:
        write_slot(slots, 8 * n, now())
        hit(n)

    return {"hit": hit_slot, "add": add}


def _map(path: Path, size: int) -> mmap.mmap:
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), size)


_opening = threading.Lock()


def _open() -> dict[str, Any]:
    """From now on `hit` and `add` are those of this process."""
    names = globals()
    with _opening:
        if names["hit"] is _first_hit:
            names.update(_make(Location.from_environment()))
    return names


def _first_hit(n: int) -> None:
    _open()["hit"](n)


def _first_add(number: int) -> None:
    _open()["add"](number)


def _forget() -> None:
    globals().update(hit=_first_hit, add=_first_add, _opening=threading.Lock())


hit = _first_hit
"""Job `n` has begun. Call it as `probe.hit(n)`: it changes."""
add = _first_add
"""So many jobs have begun, for a loop that has no handlers."""
os.register_at_fork(after_in_child=_forget)
