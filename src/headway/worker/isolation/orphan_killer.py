"""A script that a worker runs beside its isolated children: when the worker is gone, however it
ended, it kills them and the processes that they have started.

It imports nothing of Headway, so that it is small and begins at once. It is told on its standard
input which process groups there are: `+17` for a new one, `-17` for one that has ended.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys

LOOK_EVERY = 1.0
"""Seconds between looks at the worker. Usually the end of the input tells of its death at once, but
processes that the worker forked may hold the input open."""


def main(worker: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # a service manager may send them to all processes
    groups: set[int] = set()
    rest = b""
    while os.getppid() == worker:
        if select.select([0], [], [], LOOK_EVERY)[0]:
            part = os.read(0, 4096)
            if not part:
                break
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                (groups.add if line[:1] == b"+" else groups.discard)(int(line[1:]))
    for group in groups:
        with contextlib.suppress(OSError):  # it has just ended
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]))
