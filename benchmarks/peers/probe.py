"""What every handler calls. It costs well under a microsecond and never touches a queue's store.

Each process maps a file of its own: the time of the first handler, of the last, and their number.
The latency measurement adds a file with one time per job. The monotonic clock is the system's, so
times of several processes compare.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.place import Place

_HEAD = struct.Struct("ddd")


@dataclass(frozen=True)
class Seen:
    first: float
    last: float
    count: int


class Probe:
    """The probe from outside: made empty before a measurement, read during it."""

    def __init__(self, place: Place) -> None:
        self._folder = Path(place.folder) / "probe"
        self._slots = self._folder / "slots"
        self._gate = self._folder / "gate"
        self._count = place.slots

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


def _map(path: Path, size: int) -> memoryview:
    with path.open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), size)).cast("d")


def _make(place: Place) -> tuple[Callable[[int], None], Callable[[int], None]]:
    folder = Path(place.folder) / "probe"
    path = folder / f"seen-{os.getpid()}"
    path.write_bytes(bytes(_HEAD.size))
    head = _map(path, _HEAD.size)
    slots = _map(folder / "slots", 8 * place.slots) if place.slots else None
    lock = threading.Lock()
    now = time.monotonic
    count = 0

    def add(number: int) -> None:
        nonlocal count
        with lock:
            moment = now()
            if not count:
                head[0] = moment
            count += number
            head[1] = moment
            head[2] = count

    def hit(n: int) -> None:
        if slots is not None and not slots[n]:
            slots[n] = now()
        add(1)

    return hit, add


_hit: Callable[[int], None] | None = None
_add: Callable[[int], None] | None = None
_opening = threading.Lock()


def _open() -> tuple[Callable[[int], None], Callable[[int], None]]:
    global _hit, _add  # noqa: PLW0603 - one probe per process is what it is
    with _opening:
        if _hit is None or _add is None:
            _hit, _add = _make(Place.from_environment())
        return _hit, _add


def hit(n: int) -> None:
    """Job `n` has begun."""
    (_hit or _open()[0])(n)


def add(number: int) -> None:
    """So many jobs have begun, for a loop that has no handlers."""
    (_add or _open()[1])(number)


def _forget() -> None:
    global _hit, _add, _opening  # noqa: PLW0603
    _hit = _add = None
    _opening = threading.Lock()


os.register_at_fork(after_in_child=_forget)
