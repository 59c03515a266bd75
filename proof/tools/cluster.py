"""A PostgreSQL that fails over: two nodes under Patroni, synchronous replication, one etcd.

All of it comes from wheels, in an environment of its own that is made when it is first needed.
PostgreSQL refuses to be run by root; root runs it in a user namespace, where nobody is root.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from proof.tools.fork_server import alive, kill, wait_until_gone
from tests.support.processes import children, free_port
from tests.support.servers.postgres import PostgresBinaries

ROOT = Path(__file__).parents[2]
PINS = ROOT / "requirements" / "failover.txt"
ENVIRONMENT = ROOT / ".venvs" / "failover"
INSTALL_LIMIT = 600.0
TTL, LOOP_WAIT, RETRY_TIMEOUT = 20, 2, 3
"""Seconds. A standby waits for the ttl when its leader is silent; Patroni takes no shorter one."""
START_LIMIT = 90.0


GUARD = """
    read -r answer && exit 0
    kill -KILL $(cat "$0"/*/pid)
    for server in "$0"/*/data/postmaster.pid; do kill -QUIT "$(head -n 1 "$server")"; done
    sleep 2
    rm -rf "$0"
"""
"""A shell that outlives us, to end the cluster if we could not: the end of its input tells it."""


class Unavailable(Exception):
    """The cluster cannot be had on this machine."""


def install() -> Path:
    """The programs of the environment; it is made unless it is there as pinned."""
    stamp = ENVIRONMENT / "pins"
    programs = ENVIRONMENT / "bin"
    if stamp.exists() and stamp.read_text() == PINS.read_text():
        return programs
    pip = [programs / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in ([sys.executable, "-m", "venv", ENVIRONMENT], [*pip, "-r", PINS]):
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=INSTALL_LIMIT, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"Patroni could not be installed: {error}") from error
        if done.returncode:
            said = " ".join(done.stderr.split())[-300:]
            raise Unavailable(f"Patroni could not be installed: {said}")
    stamp.write_text(PINS.read_text())
    return programs


@dataclass
class Node:
    name: str
    folder: Path
    port: int
    control_port: int
    patroni: subprocess.Popen[bytes] | None = None

    @property
    def postmaster(self) -> int | None:
        try:
            return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return None


class Cluster:
    """Two nodes, of which one leads and the other confirms every commit before it is answered."""

    def __init__(self) -> None:
        found = PostgresBinaries.find()
        if found is None:
            raise Unavailable("there is no PostgreSQL on this machine")
        self._postgres = found.directory
        self._wrapped = ["unshare", "-U"] if os.geteuid() == 0 else []
        if self._wrapped and subprocess.run([*self._wrapped, "true"], check=False).returncode:
            raise Unavailable("PostgreSQL refuses to run as root, and `unshare -U` is not allowed")
        self._programs = install()
        self._folder = Path(tempfile.mkdtemp(prefix="headway-failover-"))
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, self._folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._etcd: subprocess.Popen[bytes] | None = None
        self._etcd_port = free_port()
        self.nodes = [
            Node(name, self._folder / name, free_port(), free_port()) for name in ("one", "two")
        ]

    def __enter__(self) -> Cluster:
        try:
            self._start_etcd()
            for node in self.nodes:
                node.folder.mkdir()
                (node.folder / "patroni.json").write_text(json.dumps(self._settings(node)))
            self.start(self.nodes[0])
            self.wait(lambda: self._leader() is not None, "leader")
            self.start(self.nodes[1])
            self.wait(lambda: self.synchronous, "synchronous standby")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def dsn(self) -> str:
        places = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"postgresql://postgres@{places}/postgres?target_session_attrs=read-write"

    @property
    def leader(self) -> Node:
        name = self._leader()
        return next(node for node in self.nodes if node.name == name)

    def start(self, node: Node) -> None:
        with (node.folder / "log").open("ab") as log:
            node.patroni = self._run(
                [self._programs / "patroni", node.folder / "patroni.json"], node.folder, log
            )
        (node.folder / "pid").write_text(str(node.patroni.pid))

    def kill(self, node: Node) -> None:
        """Kill -9 Patroni, the server and all its backends, as a power cut would."""
        postmaster = node.postmaster
        if node.patroni is not None:
            node.patroni.kill()
            node.patroni.wait()
        if postmaster is not None and alive(postmaster):
            kill(postmaster, signal.SIGSTOP)  # so that it cannot fork while we look
            processes = [postmaster, *children(postmaster)]
            for pid in processes:
                kill(pid)
            wait_until_gone(processes, 20)
        node.patroni = None

    @property
    def synchronous(self) -> bool:
        """Every commit is confirmed by the other node, which may therefore take over."""
        return {"leader", "sync_standby"} == {each["role"] for each in self._members()}

    def wait(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_LIMIT
        while not holds():
            if time.monotonic() > deadline:
                logs = {path: path.read_text()[-2000:] for path in self._folder.glob("*/log")}
                raise RuntimeError(f"no {what} within {START_LIMIT:.0f} s: {logs}")
            time.sleep(0.2)

    def close(self) -> None:
        for node in reversed(self.nodes):
            if node.patroni is not None:
                node.patroni.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    node.patroni.wait(20)
        for node in self.nodes:
            self.kill(node)
        if self._etcd is not None:
            self._etcd.kill()
            self._etcd.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._guard.communicate(b"removed\n")

    def _start_etcd(self) -> None:
        ours, peers = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, free_port()))
        (self._folder / "etcd").mkdir()
        with (self._folder / "etcd" / "log").open("ab") as log:
            self._etcd = subprocess.Popen(
                [
                    self._programs / "etcd",
                    *("--data-dir", self._folder / "etcd" / "data", "--unsafe-no-fsync"),
                    *("--listen-client-urls", ours, "--advertise-client-urls", ours),
                    *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
                    *("--initial-cluster", f"default={peers}"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        (self._folder / "etcd" / "pid").write_text(str(self._etcd.pid))
        self.wait(lambda: _get(f"{ours}/health") is not None, "etcd")

    def _settings(self, node: Node) -> dict[str, Any]:
        here = f"127.0.0.1:{node.port}"
        control = f"127.0.0.1:{node.control_port}"
        return {
            "scope": "headway",
            "name": node.name,
            "restapi": {"listen": control, "connect_address": control},
            "etcd3": {"host": f"127.0.0.1:{self._etcd_port}"},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL,
                    "loop_wait": LOOP_WAIT,
                    "retry_timeout": RETRY_TIMEOUT,
                    "synchronous_mode": True,
                    "postgresql": {
                        "use_pg_rewind": True,
                        "parameters": {"synchronous_commit": "on", "max_connections": 200},
                    },
                },
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "data-checksums", "no-sync"],
            },
            "postgresql": {
                "listen": here,
                "connect_address": here,
                "data_dir": str(node.folder / "data"),
                "bin_dir": str(self._postgres),
                "pgpass": str(node.folder / "pgpass"),
                "authentication": {
                    "superuser": {"username": "postgres", "password": "postgres"},
                    "replication": {"username": "replicator", "password": "replicator"},
                },
                "parameters": {"unix_socket_directories": ""},
                "pg_hba": [
                    "host all all 127.0.0.1/32 trust",
                    "host replication all 127.0.0.1/32 trust",
                ],
                "remove_data_directory_on_rewind_failure": True,
                "remove_data_directory_on_diverged_timelines": True,
            },
        }

    def _run(
        self, command: list[str | Path], folder: Path, log: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "PATRONI"))}
        return subprocess.Popen(
            [*self._wrapped, *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env={**environment, "LC_ALL": "C"},
            start_new_session=True,
        )

    def _leader(self) -> str | None:
        for member in self._members():
            if member["role"] == "leader" and member["state"] == "running":
                return str(member["name"])
        return None

    def _members(self) -> list[dict[str, Any]]:
        """As the first node that answers sees them; those that run, or lead."""
        for node in self.nodes:
            if node.patroni is not None:
                answer = _get(f"http://127.0.0.1:{node.control_port}/cluster")
                if answer is not None:
                    return [
                        each
                        for each in answer["members"]
                        if each["state"] in ("running", "streaming") or each["role"] == "leader"
                    ]
        return []


def _get(url: str) -> dict[str, Any] | None:
    try:
        with urllib.request.urlopen(url, timeout=3) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except (OSError, ValueError):
        return None
