"""Worker processes for queues with limits, which are killed and frozen, also inside claims."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from proof.tools.databases import Database
from proof.tools.fork_server import ForkServer, alive, kill, wait_until_gone


@dataclass
class Member:
    name: str
    pid: int
    resume_at: float | None = None
    """It is frozen until then."""


@dataclass(frozen=True)
class Freeze:
    worker: str
    began: float
    ended: float


class Workers:
    """So many worker processes. `look` replaces the dead and resumes the frozen."""

    def __init__(
        self,
        parent: ForkServer,
        database: Database,
        logs: Path,
        size: int,
        **settings: Any,
    ) -> None:
        self._parent = parent
        self._database = database
        self._logs = logs
        self._numbers = count(1)
        self.settings = settings
        """Of the workers that are started from now on."""
        self.frozen_for = 1.5
        """Seconds that a worker stays frozen at most."""
        self.names: dict[int, str] = {}
        """By pid."""
        self.killed: dict[str, float] = {}
        self.freezes: list[Freeze] = []
        self.strikes: Counter[str] = Counter()
        self._members = [self._spawn() for _ in range(size)]

    def _spawn(self) -> Member:
        name = f"worker-{next(self._numbers)}"
        settings = {**self.settings, "worker_id": name, "limited": True}
        pid = self._parent.spawn(self._database.dsn, self._logs, **settings)
        self.names[pid] = name
        return Member(name, pid)

    def kill_one(self) -> None:
        member = self._awake()
        if member is not None:
            self.strikes["kills"] += 1
            self._die(member)

    def freeze_one(self) -> None:
        member = self._awake()
        if member is not None:
            self.strikes["freezes"] += 1
            kill(member.pid, signal.SIGSTOP)
            self._froze(member)

    def renew(self) -> None:
        """Kill all of them, and start others with the present settings."""
        for member in list(self._members):
            self._die(member)

    def look(self) -> None:
        now = time.time()
        for member in list(self._members):
            if member.resume_at is not None:
                if member.resume_at <= now:
                    member.resume_at = None
                    kill(member.pid, signal.SIGCONT)
            elif not alive(member.pid):
                self.strikes["kills in claims"] += 1
                self._die(member)
            elif _is_stopped(member.pid):
                self.strikes["freezes in claims"] += 1
                self._froze(member)

    def look_for(self, seconds: float, pause: float = 0.01) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.look()
            time.sleep(pause)

    def stop(self) -> list[int]:
        """In order; the pids of those that did not stop."""
        pids = [member.pid for member in self._members]
        for pid in pids:
            kill(pid, signal.SIGCONT)
            kill(pid, signal.SIGTERM)
        return wait_until_gone(pids, 40)

    def calm(self, began: float, ended: float) -> bool:
        """Whether no worker was frozen then."""
        return not any(each.began < ended and began < each.ended for each in self.freezes)

    def _awake(self) -> Member | None:
        awake = [member for member in self._members if member.resume_at is None]
        return random.choice(awake) if awake else None

    def _die(self, member: Member) -> None:
        kill(member.pid)
        self.killed[member.name] = time.time()
        self._members[self._members.index(member)] = self._spawn()

    def _froze(self, member: Member) -> None:
        now = time.time()
        member.resume_at = now + random.uniform(0.1, 1.0) * self.frozen_for
        self.freezes.append(Freeze(member.name, now, member.resume_at))


def _is_stopped(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] == "T"
