"""`headway move` as an operator runs it: it says what it does, and goes on after a kill -9."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from headway import Headway
from tests.cli.command import command

JOBS = 2_000


def filled(path: Path, count: int) -> str:
    dsn = f"sqlite:///{path}"
    app = Headway(dsn)

    @app.job
    async def noop(n: int) -> None:
        pass

    with app.sync as client:
        client.start_many([noop.request(n) for n in range(count)])
    return dsn


def test_moves_what_is_there_and_says_how_much(sqlite_path: Path, postgres_url: str) -> None:
    source = filled(sqlite_path, 3)
    assert command("migrate", "up", postgres_url).exit_code == 0

    refused = command("move", source, postgres_url)
    assert refused.exit_code == 5
    assert "move 3 jobs" in refused.stderr
    assert "--yes" in refused.stderr

    done = command("move", source, postgres_url, "--yes")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("3 jobs moved in ")

    again = command("move", source, postgres_url, "--yes", "--json")
    assert json.loads(again.stdout)["moved"] == 0


@pytest.mark.parametrize("limited", [False, True])
def test_a_paused_queue_stays_paused(sqlite_path: Path, postgres_url: str, limited: bool) -> None:
    source = filled(sqlite_path, 1)
    assert command("queues", "pause", "default", "--app", source).exit_code == 0
    assert command("migrate", "up", postgres_url).exit_code == 0
    if limited:
        limit = ("queues", "limit", "default", "--running", "3", "--app", postgres_url)
        assert command(*limit).exit_code == 0

    assert command("move", source, postgres_url, "--yes").exit_code == 0

    (queue,) = json.loads(command("queues", "list", postgres_url, "--json").stdout)
    assert queue["name"] == "default"
    assert queue["paused_at"] is not None


def test_a_mistyped_source_is_not_made(sqlite_path: Path) -> None:
    refused = command("move", f"sqlite:///{sqlite_path}", f"sqlite:///{sqlite_path}.new", "--yes")
    assert refused.exit_code == 4
    assert f"there is no file {sqlite_path}; name another" in refused.stderr
    assert list(sqlite_path.parent.iterdir()) == []


def test_what_cannot_be_moved_is_refused(sqlite_path: Path) -> None:
    source = filled(sqlite_path, 1)
    for target, reason in ((source, "the same store"), ("memory://", "cannot be moved or copied")):
        refused = command("move", source, target, "--yes")
        assert refused.exit_code == 2
        assert reason in refused.stderr


def test_the_same_file_under_another_name_is_refused(
    sqlite_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = filled(sqlite_path, 3)
    folder = sqlite_path.parent
    monkeypatch.chdir(folder)
    (folder / "linked.db").symlink_to(sqlite_path)
    (folder / "second.db").hardlink_to(sqlite_path)
    (folder / "elsewhere").symlink_to(folder)
    name = sqlite_path.name
    for other in (
        f"{folder}//{name}",
        f"{folder}/elsewhere/../{folder.name}/{name}",
        name,
        f"./{name}",
        f"elsewhere/{name}",
        name.replace("h", "%68"),
        "linked.db",
        "second.db",
    ):
        refused = command("move", source, f"sqlite:///{other}", "--yes")
        assert refused.exit_code == 2, other
        assert "are the same store" in refused.stderr
        assert "moved" not in refused.output
    assert json.loads(command("stats", source, "--json").stdout)["states"]["pending"]["value"] == 3


def test_the_same_database_under_another_name_is_refused(postgres_url: str, mongo_url: str) -> None:
    for url in (postgres_url, mongo_url):
        assert command("migrate", "up", url).exit_code == 0
        other = url.replace("127.0.0.1", "localhost")
        refused = subprocess.run(
            [sys.executable, "-m", "headway", "move", url, other, "--yes"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert refused.returncode == 2, refused.stderr
        assert "are the same store" in refused.stderr


def test_killed_it_goes_on(sqlite_path: Path, postgres_url: str) -> None:
    source = filled(sqlite_path, JOBS)
    assert command("migrate", "up", postgres_url).exit_code == 0
    move = [sys.executable, "-m", "headway", "move", source, postgres_url, "--yes"]
    with psycopg.connect(postgres_url, autocommit=True) as connection:

        def arrived(table: str = "job") -> int:
            row = connection.execute(f"select count(*) from headway.{table}".encode()).fetchone()
            assert row is not None
            return row[0]

        running = subprocess.Popen(move, stderr=subprocess.DEVNULL)
        while arrived() == 0:
            assert running.poll() is None
        running.send_signal(signal.SIGKILL)
        running.wait()
        assert 0 < arrived() < JOBS

        done = subprocess.run(move, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert arrived() == JOBS
        assert arrived("staged_job") == 0
    assert json.loads(command("stats", source, "--json").stdout)["states"]["pending"]["value"] == 0


def test_the_doctor_finds_staged_jobs(postgres_url: str) -> None:
    assert command("migrate", "up", postgres_url).exit_code == 0
    with psycopg.connect(postgres_url) as connection:
        connection.execute(
            "insert into headway.staged_job values (gen_random_uuid(), gen_random_uuid(), '{}')"
        )
    found = json.loads(command("doctor", postgres_url, "--json").stdout)
    (staged,) = [each for each in found if each["subject"] == "move"]
    assert staged["level"] == "warn"
    assert "run the same command again" in staged["advice"]
