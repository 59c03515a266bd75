"""PgBouncer in transaction mode, on loopback, if the machine has it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.servers import PostgresServer
from tests.servers_news import NewsServer

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


class PgBouncer(NewsServer):
    scheme = "postgresql"

    def __init__(self, server: PostgresServer) -> None:
        super().__init__()
        self._server = server

    @staticmethod
    def program() -> str | None:
        return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")

    def url_of(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def command(self) -> list[str | Path]:
        program = self.program()
        assert program is not None
        settings = self.directory / "pgbouncer.ini"
        settings.write_text(SETTINGS.format(server=self._server.port, port=self.port))
        return [program, "-q", *(["-u", "nobody"] if os.geteuid() == 0 else []), settings]
