"""The servers that the other tests rely on."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.servers import pgbouncer
from tests.support.servers.postgres import PostgresBinaries, PostgresServer, ServerError


def major_version(url: str) -> int:
    with psycopg.connect(url) as connection:
        return connection.info.server_version // 10_000


def test_a_database_is_fresh_and_on_the_server_that_was_asked_for(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    assert major_version(postgres_url) == postgres_server.major
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("select count(*) from pg_stat_user_tables").fetchone() == (0,)


def test_a_second_server_is_of_another_major_version(
    postgres_server: PostgresServer, second_postgres_url: str
) -> None:
    assert major_version(second_postgres_url) != postgres_server.major


def test_each_database_stands_alone(postgres_server: PostgresServer) -> None:
    one, two = postgres_server.create_database(), postgres_server.create_database()
    with psycopg.connect(postgres_server.url(one)) as connection:
        connection.execute("create table only_in_one ()")
    with psycopg.connect(postgres_server.url(two)) as connection:
        assert connection.execute("select to_regclass('only_in_one')").fetchone() == (None,)
    postgres_server.drop_database(one)
    postgres_server.drop_database(two)


def test_dropping_a_database_disconnects_who_is_still_there(
    postgres_server: PostgresServer,
) -> None:
    name = postgres_server.create_database()
    with psycopg.connect(postgres_server.url(name), autocommit=True) as connection:
        postgres_server.drop_database(name)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    with PostgresServer(durable=True) as server:
        yield server


@pytest.mark.long
@pytest.mark.slow
def test_what_was_committed_survives_a_kill(own_server: PostgresServer) -> None:
    url = own_server.url(own_server.create_database())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("create table kept as select 1 as n")
        connection.execute("begin")
        connection.execute("insert into kept values (2)")
        own_server.kill()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("commit")
    assert not own_server.running
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)

    own_server.start()

    with psycopg.connect(url) as connection:
        assert connection.execute("select n from kept").fetchall() == [(1,)]


@pytest.mark.long
@pytest.mark.slow
def test_start_stop_kill_and_remove_may_be_repeated(own_server: PostgresServer) -> None:
    port = own_server.port
    own_server.start()
    own_server.stop()
    own_server.stop()
    own_server.kill()
    own_server.start()
    assert own_server.running
    assert own_server.port == port
    own_server.kill()
    own_server.kill()
    own_server.remove()
    own_server.remove()
    assert not own_server.running


SERVER_LEFT_RUNNING = """
import os, signal
from tests.support.servers import pgbouncer
from tests.support.servers.postgres import PostgresServer, ServerError
server = PostgresServer()
server.start()
print(server.directory, server.url(), flush=True)
"""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("ending", ["", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_server_does_not_outlive_the_process_that_started_it(ending: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVER_LEFT_RUNNING + ending],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        check=False,
        text=True,
    )
    assert done.returncode == (-signal.SIGKILL if ending else 0)
    directory, url = done.stdout.split()
    deadline = time.monotonic() + 20
    while Path(directory).exists():
        assert time.monotonic() < deadline, f"{directory} was left behind"
        time.sleep(0.02)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)


@pytest.fixture
def no_pgbouncer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without PgBouncer; its programs are to be put into the folder."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("PYTEST_XDIST_TESTRUNUID", raising=False)  # by which a run tries only once
    monkeypatch.setattr(pgbouncer, "INSTALLED", (None,))
    monkeypatch.setattr(pgbouncer, "BUILD", tmp_path / "build")
    monkeypatch.setattr(pgbouncer, "UNPACKED", tmp_path / "build" / "pgbouncer")
    return programs


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_the_environment_names_the_postgresql_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_program(tmp_path / "postgres", "echo 'postgres (PostgreSQL) 14.2'")
    monkeypatch.setenv("TEST_POSTGRES_BIN", str(tmp_path))
    with pytest.raises(ServerError, match=f"TEST_POSTGRES_BIN is {tmp_path}, where no PostgreSQL"):
        PostgresBinaries.find()
    write_program(tmp_path / "initdb", "exit 0")
    assert PostgresBinaries.find() == PostgresBinaries(14, tmp_path)
    second = PostgresBinaries.find(other_than=14)
    assert second is not None
    assert second.major != 14


def test_pgbouncer_is_the_machines_own_or_the_one_unpacked_before(no_pgbouncer: Path) -> None:
    unpacked = pgbouncer.UNPACKED / "run"
    write_program(unpacked, "exit 0")
    assert pgbouncer.find() == unpacked
    write_program(no_pgbouncer / "pgbouncer", "exit 0")
    assert pgbouncer.find() == no_pgbouncer / "pgbouncer"


def test_where_pgbouncer_cannot_be_downloaded_the_reason_is_told(no_pgbouncer: Path) -> None:
    with pytest.raises(ServerError, match="neither PgBouncer nor apt-get"):
        pgbouncer.find()
    write_program(no_pgbouncer / "apt-get", "echo 'there is no network' >&2; exit 100")
    with pytest.raises(ServerError, match=r"could not be downloaded \(there is no network\)"):
        pgbouncer.find()


def test_a_run_of_tests_tries_to_download_pgbouncer_once(
    no_pgbouncer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = no_pgbouncer / "tried"
    write_program(no_pgbouncer / "apt-get", f"echo x >> {tried}; echo no >&2; exit 100")
    for run in ("first", "second"):
        monkeypatch.setenv("PYTEST_XDIST_TESTRUNUID", run)
        for _ in range(3):  # processes of one run
            with pytest.raises(ServerError, match=r"could not be downloaded \(no\)"):
                pgbouncer.find()
    assert tried.read_text() == "x\nx\n"
