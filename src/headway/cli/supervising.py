"""`--processes`: one process per worker, replaced when it dies, stopped together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import click

from headway.cli.serving import PROCESS

RESTART_PAUSE = 1.0
"""Seconds before a process that died is replaced; doubled for one that dies young, up to 30."""
YOUNG = 10.0


class _Child:
    def __init__(self, number: int, command: list[str]) -> None:
        self.number = number
        self._command = command
        self._deaths = 0
        self.finished = False
        self._restart_at = 0.0
        self.start()

    def start(self) -> None:
        self._started = time.monotonic()
        # A session of its own: Ctrl-C reaches the supervisor alone, which passes it on once.
        environment = {**os.environ, PROCESS: str(self.number)}
        self.process = subprocess.Popen(self._command, env=environment, start_new_session=True)

    def look_after(self, *, stopping: bool) -> None:
        """Replace it if it died, after a pause."""
        code = self.process.poll()
        if code is None or self.finished:
            return
        if code == 0 or stopping:
            self.finished = True
        elif not self._restart_at:
            lived = time.monotonic() - self._started
            self._deaths = self._deaths + 1 if lived < YOUNG else 1
            pause = min(RESTART_PAUSE * 2 ** (self._deaths - 1), 30.0)
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            click.echo(
                f"worker {self.number} ended with {how}; starting another in {pause:.0f} s",
                err=True,
            )
            self._restart_at = time.monotonic() + pause
        elif time.monotonic() >= self._restart_at:
            self._restart_at = 0.0
            self.start()

    def send(self, number: int) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)


def supervise(count: int) -> int:
    """Run `count` workers until they are done or told to stop; 0 if all ended well."""
    command = [sys.executable, "-m", "headway", *_without_processes(sys.argv[1:])]
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True
        for child in children:
            child.send(signal.SIGTERM)

    children: list[_Child] = []
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    children += [_Child(number, command) for number in range(1, count + 1)]
    while not all(child.finished for child in children):
        time.sleep(0.1)
        for child in children:
            child.look_after(stopping=stopping)
    return max((abs(child.process.returncode or 0) for child in children), default=0)


def _without_processes(arguments: list[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument == "--processes":
            skip = True
        elif not argument.startswith("--processes="):
            kept.append(argument)
    return [*kept, "--processes", "1"]
