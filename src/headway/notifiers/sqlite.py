"""News between processes that share an SQLite file: datagrams through sockets beside the file, and
a look at the file for what nobody announced."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from headway.notifiers.connection import Ears, Link
from headway.notifiers.packets import Message
from headway.notifiers.remote import LinkedNotifier
from headway.ports.notifications import Topic
from headway.ports.notifier import Reach

LOOK_EVERY = 0.1
"""Seconds between two looks at the file where datagrams tell the rest."""
LOOK_OFTEN = 0.01
"""The same where there are none."""
LONGEST_ADDRESS = 100
"""Bytes of a socket's path that every system takes."""
LARGEST_DATAGRAM = 65_536
PATIENCE_WITH_FULL, PAUSE_FOR_FULL = 0.02, 0.001
"""Seconds that one send waits for those who do not read, all of them together."""


class SqliteNotifier(LinkedNotifier):
    """Every process that listens has a socket in a directory beside the database, and whoever has
    news sends it to all of them: nothing polls, and nothing has to run in between.

    A commit that nobody announces, of a caller's own transaction for instance, is seen by a change
    of the write-ahead log, which costs a microsecond to look at.
    """

    reach = Reach.EVERY_COMMIT
    largest = 60_000  # a queue of datagrams is short, but each may be long

    def __init__(self, path: str | Path) -> None:
        super().__init__(f"notifier of the SQLite file {path}")
        self._path = path

    async def connect(self, ears: Ears) -> Link:
        return _SqliteLink(self._real_path(), ears)

    def _real_path(self) -> Path:
        """The same for everyone, whatever links and directories they come by."""
        return Path(os.path.realpath(self._path))


class _SqliteLink:
    counts = False

    def __init__(self, database: Path, ears: Ears) -> None:
        self._database = database
        self._log = Path(f"{database}-wal")
        self._directory = Path(f"{database}-news")
        self._ears = ears
        self._loop = asyncio.get_running_loop()
        self._folder: int | None = None
        self._socket: socket.socket | None = None
        self._name = ""
        self._topics: frozenset[Topic] = frozenset()
        self._seen: tuple[int, int] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def listen(self, topics: frozenset[Topic]) -> None:
        self._topics |= topics
        self._bind()
        if self._timer is None:
            self._seen = self._state()
            self._look()

    async def send(self, messages: Sequence[Message], budgets: Sequence[tuple[str, int]]) -> None:
        try:
            names = os.listdir(self._directory)
        except FileNotFoundError:
            return
        patient_until = self._loop.time() + PATIENCE_WITH_FULL
        with _sender() as sender:
            for name in names:
                if name == self._name or not name.endswith(".socket"):
                    continue
                topics = name.partition(".")[0]
                for packet in [packet for topic, packet in messages if topic[0] in topics]:
                    while not self._send(sender, name, packet):
                        if self._loop.time() > patient_until:
                            break
                        await asyncio.sleep(PAUSE_FOR_FULL)
        # Our own subscribers have been told, so the change in the file is no news to them.
        self._seen = self._state()

    async def take(self, wanted: Sequence[tuple[str, int]]) -> list[int]:
        return [count for _, count in wanted]

    async def watch(self) -> None:
        if self._name and not (self._directory / self._name).exists():
            raise FileNotFoundError(errno.ENOENT, "our socket was removed", self._name)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._unbind()
        self._forget_folder()
        with contextlib.suppress(OSError):
            self._directory.rmdir()  # the last one takes it away

    def _bind(self) -> None:
        """Have a socket whose name says what it is for: a letter for each topic."""
        if not hasattr(socket, "AF_UNIX"):
            return
        name = "".join(sorted(topic[0] for topic in self._topics))
        name = f"{name}.{os.getpid()}.{secrets.token_hex(4)}.socket"
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        receiver.setblocking(False)
        for last_try in (False, True):
            try:
                self._make_directory()
                receiver.bind(self._address(name))
                os.chmod(self._directory / name, 0o666)  # the directory says who may come in
            except OSError:  # somebody took the directory away, or we may not write here
                self._forget_folder()
                if last_try:
                    receiver.close()  # then the file is looked at more often
                    return
            else:
                break
        self._unbind()
        self._socket, self._name = receiver, name
        self._loop.add_reader(receiver.fileno(), self._receive, receiver)

    def _unbind(self) -> None:
        if self._socket is not None:
            self._receive(self._socket)
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            with contextlib.suppress(OSError):
                (self._directory / self._name).unlink()
            self._socket, self._name = None, ""

    def _forget_folder(self) -> None:
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None

    def _make_directory(self) -> None:
        """For those who may read and write the database."""
        with contextlib.suppress(FileExistsError):
            self._directory.mkdir(0o700)
            of = self._database.stat()
            self._directory.chmod((of.st_mode & 0o666) | (of.st_mode & 0o222) >> 1)
            if hasattr(os, "geteuid") and os.geteuid() == 0:
                os.chown(self._directory, of.st_uid, of.st_gid)

    def _address(self, name: str) -> str:
        """A path that is short enough for a socket, if need be through our open directory."""
        path = str(self._directory / name)
        if len(os.fsencode(path)) <= LONGEST_ADDRESS or not sys.platform.startswith("linux"):
            return path
        if self._folder is None:
            self._folder = os.open(self._directory, os.O_RDONLY)
        return f"/proc/self/fd/{self._folder}/{name}"

    def _send(self, sender: socket.socket, name: str, packet: bytes) -> bool:
        """False if it has no room now."""
        try:
            sender.sendto(packet, self._address(name))
        except BlockingIOError:
            return False
        except ConnectionRefusedError:  # it died without a word
            with contextlib.suppress(OSError):
                (self._directory / name).unlink()
        except FileNotFoundError:
            self._forget_folder()
        except OSError:
            pass
        return True

    def _receive(self, receiver: socket.socket) -> None:
        for _ in range(100):
            try:
                data = receiver.recv(LARGEST_DATAGRAM)
            except BlockingIOError:
                return
            except OSError as error:
                self._ears.lost(error)
                return
            self._seen = self._state()
            self._ears.heard(data)

    def _look(self) -> None:
        state = self._state()
        if state != self._seen:
            self._seen = state
            self._ears.nudge()
        pause = LOOK_OFTEN if self._socket is None else LOOK_EVERY
        self._timer = self._loop.call_later(pause, self._look)

    def _state(self) -> tuple[int, int]:
        try:
            found = os.stat(self._log)
        except OSError:
            return 0, 0
        return found.st_mtime_ns, found.st_size


def _sender() -> socket.socket:
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.setblocking(False)
    return sender
