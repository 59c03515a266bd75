"""Notifications between processes that share an SQLite file: datagrams through sockets beside the
file, and a look at the write-ahead log for commits without a notification."""

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

from headway.notifiers.connection import ConnectionCallbacks, NotifierConnection
from headway.notifiers.packets import Message
from headway.notifiers.remote import RemoteNotifier
from headway.ports.notifications import Topic
from headway.ports.notifier import Reach

LOOK_EVERY = 0.1
"""Seconds between looks at the log while datagrams arrive."""
LOOK_OFTEN = 0.01
"""The same where sockets are not available."""
LONGEST_ADDRESS = 100
"""Bytes of a socket path that every system accepts."""
LARGEST_DATAGRAM = 65_536
FULL_TIMEOUT, FULL_PAUSE = 0.02, 0.001
"""Seconds that one send waits for full sockets altogether, and between two tries."""


class SqliteNotifier(RemoteNotifier):
    """Every listening process has a socket in a directory beside the database, and a publisher
    sends to all of them: no server in between.

    A commit without a notification, for instance of a caller's own transaction, shows as a change
    of the write-ahead log; a look at it takes a microsecond.
    """

    reach = Reach.EVERY_COMMIT
    largest = 60_000  # a socket holds few datagrams, but large ones

    def __init__(self, path: str | Path) -> None:
        super().__init__(f"notifier of the SQLite file {path}")
        self._path = path

    async def connect(self, callbacks: ConnectionCallbacks) -> NotifierConnection:
        return _SqliteNotifierConnection(self._path, callbacks)


class _SqliteNotifierConnection(NotifierConnection):
    def __init__(self, path: str | Path, callbacks: ConnectionCallbacks) -> None:
        # Resolved, so that all processes use the same directory.
        self._database = database = Path(os.path.realpath(path))
        self._log = Path(f"{database}-wal")
        self._directory = Path(f"{database}-notifications")
        self._callbacks = callbacks
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
        deadline = self._loop.time() + FULL_TIMEOUT
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            for name in names:
                if name == self._name or not name.endswith(".socket"):
                    continue
                topics = name.partition(".")[0]
                for packet in [packet for topic, packet in messages if topic[0] in topics]:
                    while not self._send(sender, name, packet):
                        if self._loop.time() > deadline:
                            break
                        await asyncio.sleep(FULL_PAUSE)
        # This process's subscribers have been told of this change of the log.
        self._seen = self._state()

    async def watch(self) -> None:
        if self._name and not (self._directory / self._name).exists():
            raise FileNotFoundError(errno.ENOENT, "the socket was removed", self._name)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._unbind()
        self._forget_folder()
        with contextlib.suppress(OSError):
            self._directory.rmdir()  # if this was the last socket

    def _bind(self) -> None:
        """Make a socket whose name begins with the first letter of each topic that it receives."""
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
                os.chmod(self._directory / name, 0o666)  # the directory's mode restricts access
            except OSError:  # the directory was removed, or is not writable
                self._forget_folder()
                if last_try:
                    receiver.close()  # then the log is looked at more often
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
        """With access for those who may read and write the database."""
        with contextlib.suppress(FileExistsError):
            self._directory.mkdir(0o700)
            of = self._database.stat()
            self._directory.chmod((of.st_mode & 0o666) | (of.st_mode & 0o222) >> 1)
            if hasattr(os, "geteuid") and os.geteuid() == 0:
                os.chown(self._directory, of.st_uid, of.st_gid)

    def _address(self, name: str) -> str:
        """A path short enough for a socket, if need be through /proc."""
        path = str(self._directory / name)
        if len(os.fsencode(path)) <= LONGEST_ADDRESS or not sys.platform.startswith("linux"):
            return path
        if self._folder is None:
            self._folder = os.open(self._directory, os.O_RDONLY)
        return f"/proc/self/fd/{self._folder}/{name}"

    def _send(self, sender: socket.socket, name: str, packet: bytes) -> bool:
        """False if the socket is full."""
        try:
            sender.sendto(packet, self._address(name))
        except BlockingIOError:
            return False
        except ConnectionRefusedError:  # its process died
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
                self._callbacks.lost(error)
                return
            self._seen = self._state()
            self._callbacks.received(data)

    def _look(self) -> None:
        state = self._state()
        if state != self._seen:
            self._seen = state
            self._callbacks.changed()
        pause = LOOK_OFTEN if self._socket is None else LOOK_EVERY
        self._timer = self._loop.call_later(pause, self._look)

    def _state(self) -> tuple[int, int]:
        try:
            found = os.stat(self._log)
        except OSError:
            return 0, 0
        return found.st_mtime_ns, found.st_size
