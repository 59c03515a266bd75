"""The process that is started by hand: watches files, and runs the app in a child that it replaces.

The app's code is never imported here, so that a new child always has all of it fresh.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from headway.cli.dev.child import AGAIN, TOKEN
from headway.cli.dev.file_watch import Watcher
from headway.cli.output import say
from headway.cli.worker.parent_pipe import Parent

LOOK_EVERY = 0.25
"""Seconds between two looks at the files."""
END_WITHIN = 15.0
"""Seconds that a child gets to end before it is killed."""
USUAL_PORT = 8420


def develop(target: str, *, port: int | None, dashboard: bool) -> int:
    """Run until SIGINT or SIGTERM; a second signal does not wait for running jobs."""
    file, _, _ = target.partition(":")
    folder = Path(file).resolve().parent if file.endswith(".py") else Path.cwd()
    watcher = Watcher(folder)
    child = _Child(target, (port or _free_port()) if dashboard else 0)
    ending = False

    def end(*_: object) -> None:
        nonlocal ending  # an Event would have a lock, which what is interrupted here may hold
        if ending:
            child.hurry()
        ending = True

    def ends() -> bool:
        time.sleep(LOOK_EVERY)
        return ending

    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGTERM, end)
    say(f"{target} runs, and starts again when it changes; Ctrl-C ends it")
    child.start()
    while not ends():
        changed = watcher.changed()
        while changed and not ends() and (more := watcher.changed()):
            changed = more  # somebody is still writing
        if changed and not ending:
            say(f"{changed[0]} changed: starting again")
            child.stop()
            child.start()
        child.notice_end()
    child.stop()
    say("ended")
    return 0


class _Child:
    """The process with the app's code."""

    def __init__(self, target: str, port: int) -> None:
        self._command = [
            *(sys.executable, "-P", "-m", "headway.cli.dev.child"),
            *(target, str(port)),
        ]
        # A cached module is trusted by the second it was changed in, and edits come faster.
        self._environment = {
            **os.environ,
            TOKEN: secrets.token_urlsafe(24),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }
        self._parent = Parent()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        # A session of its own: Ctrl-C reaches the parent alone, which passes it on once.
        self._process = subprocess.Popen(
            self._command,
            env=self._parent.environment(self._environment),
            pass_fds=(self._parent.child_end,),
            start_new_session=True,
        )
        self._environment[AGAIN] = "1"

    def stop(self) -> None:
        """Stop it; running jobs get a moment to finish."""
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(END_WITHIN)
        except subprocess.TimeoutExpired:
            say("a job does not stop: it is killed, and run again when its lease has run out")
            process.kill()
            process.wait()
        self._process = None

    def hurry(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def notice_end(self) -> None:
        """Print a message if it ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            self._process = None
            say("waiting for a change")


def _free_port() -> int:
    """8420 if it is free, else another."""
    for port in (USUAL_PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found: int = probe.getsockname()[1]
            return found
    raise OSError("no port is free")
