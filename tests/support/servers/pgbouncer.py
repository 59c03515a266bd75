"""PgBouncer in transaction mode, on loopback: the machine's own, or Debian's package, unpacked."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from tests.support.servers.brokers import ServerProcess
from tests.support.servers.postgres import PostgresServer, ServerError

SETTINGS = """\
[databases]
* = host=127.0.0.1 port={server} user=postgres

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
server_round_robin = 1
"""
"""Every transaction gets a connection that another client had before, so what one of them leaves
behind meets the next."""

BUILD = Path(__file__).parents[3] / "build"
UNPACKED = BUILD / "pgbouncer"
INSTALLED = (None, "/usr/sbin")
"""Where to look for the machine's own; None is the PATH."""
DOWNLOAD_TIMEOUT = 60.0
"""Seconds in all, so that a machine without a network loses no more."""
APT = (
    *("-q", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=0"),
    *("-o", "Acquire::http::Timeout=10", "-o", "Acquire::https::Timeout=10"),
)
PROGRAM = """\
#!/bin/sh
here=$(dirname "$0")
libraries=$(ls -d "$here"/usr/lib/*-linux-* "$here"/lib/*-linux-* 2>/dev/null | paste -sd :)
LD_LIBRARY_PATH=$libraries exec "$here/usr/sbin/pgbouncer" "$@"
"""


class PgBouncer(ServerProcess):
    scheme = "postgresql"

    def __init__(self, server: PostgresServer) -> None:
        self._program = find()
        super().__init__()
        self._server = server

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def command(self) -> list[str | Path]:
        settings = self.directory / "pgbouncer.ini"
        settings.write_text(SETTINGS.format(server=self._server.port, port=self.port))
        return [self._program, "-q", *(["-u", "nobody"] if os.geteuid() == 0 else []), settings]


def find() -> Path:
    """The machine's PgBouncer, or one that was unpacked before, or one that is downloaded now.

    Raises ServerError with the reason if there is none to be had. Needs neither root nor a change
    of the machine. Processes of one test run try to download one after the other, and once.
    """
    for place in INSTALLED:
        if installed := shutil.which("pgbouncer", path=place):
            return Path(installed)
    program = UNPACKED / "run"
    if program.exists():
        return program
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "pgbouncer.lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if program.exists():
            return program
        lock.seek(0)
        run, _, reason = lock.read().partition("\n")
        this_run = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
        if not (this_run and this_run == run):
            lock.truncate(0)
            reason = _download()
            lock.write(f"{this_run}\n{reason}")
    if reason:
        raise ServerError(reason)
    return program


def _download() -> str:
    """Unpack Debian's package and its libraries into UNPACKED; the reason if that cannot be."""
    if shutil.which("apt-get") is None:
        return "This machine has neither PgBouncer nor apt-get to download it with"
    with tempfile.TemporaryDirectory(prefix="pgbouncer-", dir=BUILD) as place:
        folder = Path(place)
        try:
            _unpack_package(folder)
        except (OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", None) or str(error)
            return f"PgBouncer could not be downloaded ({' '.join(said.split())[:300]})"
        (folder / "unpacked").rename(UNPACKED)
    return ""


def _unpack_package(folder: Path) -> None:
    unpacked = folder / "unpacked"
    for place in ("state/lists/partial", "cache/archives/partial", "packages", "unpacked"):
        (folder / place).mkdir(parents=True)
    apt = (*APT, "-o", f"Dir::State={folder}/state", "-o", f"Dir::Cache={folder}/cache")
    packages = folder / "packages"
    deadline = time.monotonic() + DOWNLOAD_TIMEOUT

    def run(*command: str | Path) -> str:
        return subprocess.run(
            command,
            cwd=packages,
            check=True,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=max(deadline - time.monotonic(), 0.1),
        ).stdout

    run("apt-get", *apt, "update")
    listed = run("apt-cache", *apt, "depends", "pgbouncer")
    libraries = re.findall(r"^ +Depends: (lib(?!c6$)[\w.+-]+)$", listed, re.MULTILINE)
    run("apt-get", *apt, "download", "pgbouncer", *libraries)
    for package in packages.glob("*.deb"):
        run("dpkg-deb", "-x", package, unpacked)
    program = unpacked / "run"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    run(program, "--version")
