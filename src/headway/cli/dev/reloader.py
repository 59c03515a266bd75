"""The process that is started by hand: watches files, and runs the app in a child that it replaces.

The app's code is never imported here, so that a new child always has all of it fresh.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from headway.cli.dev.child import AGAIN, GRACE, TOKEN, UP
from headway.cli.dev.file_watch import Watcher
from headway.cli.output import say, watched
from headway.cli.target import Target
from headway.cli.worker.parent_pipe import Parent
from headway.domain.text import span

LOOK_EVERY = 0.25
"""Seconds between two looks at the files."""
END_WITHIN = 15.0
"""Seconds that a child gets to end before it is killed."""
USUAL_PORT = 8420
STOPPING = f"stopping: running jobs get {GRACE:g} s; Ctrl-C again kills them\n".encode()


def develop(target: Target, *, port: int | None, dashboard: bool) -> int:
    """Run until SIGINT or SIGTERM; a second signal kills running jobs."""
    file, _, _ = target.text.partition(":")
    imported_from = target.folder or Path.cwd()
    folder = Path(file).resolve().parent if file.endswith(".py") else imported_from
    watcher = Watcher(folder)
    child = _Child(target.text, imported_from, (port or _free_port()) if dashboard else 0)
    ending = False
    awake, wake = os.pipe()

    def end(*_: object) -> None:
        nonlocal ending  # an Event would have a lock, which what is interrupted here may hold
        if ending:
            child.kill()
            return
        ending = True
        with contextlib.suppress(OSError):
            # Not `say`: the signal may interrupt a print.
            os.write(2, b"\n" * watched() + STOPPING)
        os.write(wake, b"1")

    def ends() -> bool:
        child.wait(awake, LOOK_EVERY)
        return ending

    signal.signal(signal.SIGINT, end)
    signal.signal(signal.SIGTERM, end)
    say(f"{target.text} runs, and starts again when it changes; Ctrl-C ends it")
    child.start()
    while not ends():
        changed = watcher.changed()
        while changed and not ends() and (more := watcher.changed()):
            changed = more  # somebody is still writing
        if changed and not ending:
            say(f"{changed[0]} changed: starting again")
            child.stop()
            if not ending:
                child.start()
        child.notice_end()
    child.stop()
    say("ended")
    return 0


class _Child:
    """The process with the app's code."""

    def __init__(self, target: str, folder: Path, port: int) -> None:
        self._command = [
            *(sys.executable, "-P", "-m", "headway.cli.dev.child"),
            *(target, str(folder), str(port)),
        ]
        # A cached module is trusted by the second it was changed in, and edits come faster.
        self._environment = {
            **os.environ,
            TOKEN: os.environ.get("HEADWAY_TOKEN") or secrets.token_urlsafe(24),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }
        self._parent = Parent()
        self._process: subprocess.Popen[bytes] | None = None
        self._up: int | None = None
        """The end of a pipe to which the child writes when it is up."""
        self._began = time.monotonic()

    def start(self) -> None:
        self._up, child_end = os.pipe()
        # A session of its own: Ctrl-C reaches the parent alone, which passes it on once.
        self._process = subprocess.Popen(
            self._command,
            env=self._parent.environment({**self._environment, UP: str(child_end)}),
            pass_fds=(self._parent.child_end, child_end),
            start_new_session=True,
        )
        os.close(child_end)

    def wait(self, awake: int, seconds: float) -> None:
        """Wait until `awake` can be read, for so long at most. Says when a reload is up."""
        ends = [awake] if self._up is None else [awake, self._up]
        readable, _, _ = select.select(ends, [], [], seconds)
        if self._up in readable:
            self._read_up()

    def stop(self) -> None:
        """Stop it; running jobs get a moment to finish."""
        self._began = time.monotonic()
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
        if self._up is not None:
            self._read_up(quiet=True)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def notice_end(self) -> None:
        """Print a message if it ended by itself."""
        if self._process is None or (code := self._process.poll()) is None:
            return
        self._process = None
        how = f"the process was ended by {signal.Signals(-code).name}; " if code < 0 else ""
        say(f"{how}waiting for the next save")

    def _read_up(self, *, quiet: bool = False) -> None:
        """The child is up, or has ended without."""
        assert self._up is not None
        is_up = bool(os.read(self._up, 1))
        os.close(self._up)
        self._up = None
        if is_up and AGAIN not in self._environment:
            self._environment[AGAIN] = "1"
        elif is_up and not quiet:
            say(f"reloaded in {span(time.monotonic() - self._began)}")


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
