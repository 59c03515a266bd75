"""`--processes`: one process per worker, replaced when it dies, stopped together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import click

from headway.cli.target import target_environment
from headway.cli.worker.parent_pipe import Parent
from headway.runtime.process_number import VARIABLE

RESTART_PAUSE = 1.0
"""Seconds before a process that died is replaced; doubled for one that dies young, up to 30."""
YOUNG = 10.0


class _Child:
    def __init__(self, number: int, command: list[str], parent: Parent) -> None:
        self.number = number
        self._command = command
        self._parent = parent
        self._deaths = 0
        self._told = 0
        self.finished = False
        self._restart_at = 0.0
        self.start()

    def start(self) -> None:
        self._started = time.monotonic()
        self.process = subprocess.Popen(
            self._command,
            env=self._parent.environment(
                {**os.environ, **target_environment(), VARIABLE: str(self.number)}
            ),
            pass_fds=(self._parent.child_end,),
            # A session of its own: Ctrl-C reaches the supervisor alone, which passes it on once.
            start_new_session=True,
        )

    def look_after(self, stops: int) -> None:
        """Pass on the stop signals of the supervisor. Replace the process if it died, after a
        pause."""
        code = self.process.poll()
        if self.finished:
            return
        if code is None:
            while self._told < stops:
                self._told += 1
                self.process.send_signal(signal.SIGTERM)
        elif code == 0 or stops:
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

    @property
    def exit_code(self) -> int:
        """Also 0 for a process that was stopped before it could handle the signal."""
        code = self.process.returncode
        return 0 if self._told and code == -signal.SIGTERM else abs(code)


def supervise(count: int) -> int:
    """Run `count` workers until they are done or told to stop; 0 if all ended well."""
    command = [sys.executable, "-m", "headway", *_without_processes(sys.argv[1:])]
    parent = Parent()
    stops = 0

    def stop(*_: object) -> None:
        nonlocal stops
        stops += 1  # passed on below: here, a child may be half started

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    children = [_Child(number, command, parent) for number in range(1, count + 1) if not stops]
    while True:
        for child in children:
            child.look_after(stops)
        if all(child.finished for child in children):
            return max((child.exit_code for child in children), default=0)
        time.sleep(0.1)


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
