"""Tables fit the terminal, pipes get everything, and NO_COLOR is respected."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from headway import Headway
from tests.cli.populated_store import Populated, populate

CTRL_C, CTRL_D = "\x03", "\x04"
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
    columns: int,
    *arguments: str,
    answer: str = "",
    asked: str = "",
    code: int = 0,
    program: tuple[str, ...] = ("-m", "headway"),
    **environment: str,
) -> str:
    """What the command prints on a terminal of that width, where somebody types an answer, after
    this question was asked."""
    terminal, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    usual = dict(os.environ)
    for name in ("COLUMNS", "NO_COLOR"):
        usual.pop(name, None)
    process = subprocess.Popen(
        [sys.executable, *program, *arguments],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env={**usual, "TERM": "xterm-256color", **environment},
        start_new_session=True,
        preexec_fn=_take_terminal,  # noqa: PLW1509 - one call of the kernel
    )
    os.close(inside)
    found = b""
    answered = False
    try:
        while True:
            if not answered and asked.encode() in found:
                os.write(terminal, answer.encode())
                answered = True
            if answer == CTRL_C and not select.select([terminal], [], [], 1.0)[0]:
                # The first may come just before the read, which it would have interrupted.
                answered = False
                continue
            chunk = os.read(terminal, 65_536)
            if not chunk:
                break
            found += chunk
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(terminal)
    assert process.wait(30) == code, found
    return found.decode()


def _take_terminal() -> None:
    """Ctrl-C, typed there, is a signal for this process."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.fixture(scope="module")
def many_dsn(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('many') / 'many.db'}"


@pytest.fixture(scope="module")
def many(many_dsn: str) -> Populated:
    """Jobs in every state."""
    return populate(many_dsn)


TABLES = """
import sys
from headway.cli.root import headway
for words in sys.argv[1:]:
    headway(words.split(), standalone_mode=False)
"""


@pytest.mark.parametrize("columns", [60, 80])
def test_tables_fit_the_terminal(many: Populated, many_dsn: str, columns: int) -> None:
    tables = [
        "jobs list",
        "sequences list",
        f"sequences show {many.sequence}",
        f"sequences tree {many.blocked}",
        "queues list",
        "workers list",
        "config show",
        "migrate status",
    ]
    shown = in_terminal(
        columns, *tables, program=("-c", TABLES), NO_COLOR="1", HEADWAY_APP=many_dsn
    )
    for title in ("NOTE", "JOBS", "POSITION", "waits for", "PENDING", "SETTING", "STEP"):
        assert title in shown
    assert all(len(line) <= columns for line in shown.splitlines()), shown
    assert "\x1b" not in shown


def test_ids_are_shortened_first_and_errors_stay_readable(many: Populated, many_dsn: str) -> None:
    def rows(columns: int, *options: str) -> list[list[str]]:
        words = ("jobs", "list", "args.order_id:8", *options)
        shown = in_terminal(columns, *words, NO_COLOR="1", HEADWAY_APP=many_dsn)
        return [line.split(maxsplit=6) for line in shown.splitlines()]

    error = "RuntimeError: the tax office is closed for 8"
    whole = ["ID", "TYPE", "STATE", "QUEUE", "FAILED", "CREATED", "NOTE"]
    head, row = rows(160)
    assert (head, row[0]) == (whole, many.failed)
    head, row = rows(120)
    assert (head, row[0]) == (whole, many.failed[-8:])
    assert row[-1].endswith(error)
    head, row, below = rows(80)
    assert (head, row[0]) == (whole, many.failed[-8:])
    assert " ".join(below) == error
    head, row, below, left_out = rows(60)
    assert head == ["ID", "TYPE", "STATE", "FAILED", "NOTE"]
    assert (row[0], " ".join(below)) == (many.failed[-8:], error)
    assert " ".join(left_out) == "left out: QUEUE, CREATED; --wide prints them"
    head, row = rows(60, "--wide")
    assert (head, row[0]) == (whole, many.failed)
    assert row[-1].endswith(error)


@pytest.mark.parametrize(("columns", "titles"), [(40, 3), (120, 7)])
def test_long_names_are_cut_before_columns_are_left_out(
    dsn: str, columns: int, titles: int
) -> None:
    shown = in_terminal(columns, "jobs", "list", "-a", dsn, NO_COLOR="1").splitlines()
    assert len(shown[0].split()) >= titles
    table = [line for line in shown if not line.startswith("left out")]
    assert all(len(line) <= columns for line in table), shown


def test_trees_and_lines_shorten_ids_too(many: Populated, many_dsn: str) -> None:
    def shown(*words: str, answer: str) -> str:
        return in_terminal(
            60, *words, asked="failed", answer=answer, NO_COLOR="1", HEADWAY_APP=many_dsn
        )

    for words, id, typed in (
        (("sequences", "tree", many.blocked), many.blocker, ""),
        (("jobs", "tail", "args.order_id:8"), many.failed, CTRL_C),
    ):
        short = shown(*words, answer=typed)
        assert id not in short
        assert id[-8:] in short
        assert id in shown(*words, "--wide", answer=typed)


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


@pytest.mark.parametrize(
    ("typed", "loop", "code", "sentence"),
    [
        (CTRL_C, "uvloop", 130, "interrupted; nothing was changed"),
        (CTRL_C, "asyncio", 130, "interrupted; nothing was changed"),
        (CTRL_D, "uvloop", 5, "nothing was changed"),
    ],
)
def test_the_question_can_be_left(
    dsn: str, tmp_path: Path, typed: str, loop: str, code: int, sentence: str
) -> None:
    path = os.environ.get("PYTHONPATH", "")
    if loop == "asyncio":  # as it is where uvloop is not installed
        (tmp_path / "uvloop.py").write_text("raise ModuleNotFoundError('uvloop')")
        path = f"{tmp_path}{os.pathsep}{path}"
    said = in_terminal(
        100,
        *("jobs", "cancel", "state:pending", "-a", dsn),
        asked="[y/N]: ",
        answer=typed,
        code=code,
        NO_COLOR="1",
        PYTHONPATH=path,
    )
    question, *rest = said.replace("^C", "").replace("^D", "").split("[y/N]: ")
    assert "cancel 2 jobs" in question
    assert [line for line in rest[0].splitlines() if line.strip("\b \r")] == [f"Error: {sentence}"]
    with Headway(dsn).sync as client:
        assert len(client.list(state="pending").jobs) == 2


def test_progress_is_for_terminals(dsn: str) -> None:
    said = in_terminal(100, "jobs", "cancel", "state:pending", "--yes", "-a", dsn, NO_COLOR="1")
    assert "100%" in said
