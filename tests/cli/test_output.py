"""Tables fit the terminal, pipes get everything, and NO_COLOR is respected."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from headway import Headway

TYPES = ["charge", "a_job_type_with_a_name_that_is_longer_than_most_others_are"]


@pytest.fixture
def dsn(sqlite_path: Path) -> str:
    dsn = f"sqlite:///{sqlite_path}"
    app = Headway(dsn)

    async def handler(n: int) -> None: ...

    types = [app.job(name=name, queue="a-queue-with-a-long-name")(handler) for name in TYPES]
    with app.sync as client:
        client.start_many([each.request(7) for each in types])
    return dsn


def in_terminal(
    columns: int, *arguments: str, answer: str = "", code: int = 0, **environment: str
) -> str:
    """What the command prints on a terminal of that width, where somebody types an answer."""
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    usual = dict(os.environ)
    for name in ("COLUMNS", "NO_COLOR"):
        usual.pop(name, None)
    process = subprocess.Popen(
        [sys.executable, "-m", "headway", *arguments],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env={**usual, "TERM": "xterm-256color", **environment},
    )
    os.close(inside)
    os.write(terminal, answer.encode())
    found = b""
    try:
        while chunk := os.read(terminal, 65_536):
            found += chunk
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(terminal)
    assert process.wait(30) == code, found
    return found.decode()


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_tables_fit_the_terminal(dsn: str, columns: int) -> None:
    shown = in_terminal(columns, "jobs", "list", "-a", dsn, NO_COLOR="1")
    lines = shown.splitlines()
    assert len(lines) == 3
    assert all(len(line) <= columns for line in lines), shown
    assert "\x1b" not in shown
    assert lines[0].startswith("ID")


def test_colours_are_for_terminals(dsn: str) -> None:
    assert "\x1b[36mpending\x1b[0m" in in_terminal(120, "jobs", "list", "-a", dsn)


def test_a_pipe_gets_everything_and_no_colour(dsn: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headway", "jobs", "list", "-a", dsn],
        env={**os.environ, "COLUMNS": "20"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert TYPES[1] in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_json_is_the_whole_of_stdout(dsn: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headway", "jobs", "list", "-n", "1", "--json", "-a", dsn],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    page = json.loads(done.stdout)
    assert [job["type"] for job in page["jobs"]] == [TYPES[1]]
    assert page["cursor"]


@pytest.mark.parametrize(("answer", "left", "code"), [("y\n", 0, 0), ("n\n", 2, 5)])
def test_on_a_terminal_it_asks(dsn: str, answer: str, left: int, code: int) -> None:
    said = in_terminal(
        100, "jobs", "cancel", "state:pending", "-a", dsn, answer=answer, code=code, NO_COLOR="1"
    )
    assert "cancel 2 jobs that match in SQLite file" in said
    assert "[y/N]" in said
    assert ("2 jobs cancelled" in said) is (code == 0)
    with Headway(dsn).sync as client:
        assert len(client.list(state="pending").jobs) == left


def test_progress_is_for_terminals(dsn: str) -> None:
    said = in_terminal(100, "jobs", "cancel", "state:pending", "--yes", "-a", dsn, NO_COLOR="1")
    assert "100%" in said
