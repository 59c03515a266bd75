"""The parts of `headway dev`: what is watched, and what is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headway.cli.dev.attempt_lines import A_SECOND, LineObserver
from headway.cli.dev.file_watch import Watcher
from headway.domain.events import AttemptCompleted, AttemptFailed, WorkerTroubled
from headway.errors import Failure


def test_notices_what_is_made_changed_and_removed(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("one")
    (tmp_path / "parts").mkdir()
    watcher = Watcher(tmp_path)
    assert watcher.changed() == []
    (tmp_path / "parts" / "mail.py").write_text("two")
    assert watcher.changed() == [os.path.join("parts", "mail.py")]
    (tmp_path / "app.py").write_text("one and more")
    assert watcher.changed() == ["app.py"]
    (tmp_path / "app.py").unlink()
    assert watcher.changed() == ["app.py"]
    assert watcher.changed() == []


def test_looks_away_from_what_is_not_the_apps(tmp_path: Path) -> None:
    for folder in (".git", "__pycache__", "node_modules", "env"):
        (tmp_path / folder).mkdir()
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    watcher = Watcher(tmp_path)
    for file in (".git/a.py", "__pycache__/a.py", "node_modules/a.py", "env/a.py", "a.txt"):
        (tmp_path / file).write_text("new")
    assert watcher.changed() == []


def completed(number: int) -> AttemptCompleted:
    return AttemptCompleted(
        job_id=f"{number:036}",
        type="charge",
        queue="default",
        sequence_id="",
        worker="w",
        version=1,
        attempt=1,
        trace_id=None,
        seconds=0.0123,
    )


def test_a_line_per_job(capsys: pytest.CaptureFixture[str]) -> None:
    lines = LineObserver()
    lines.observe(completed(12345678))
    lines.observe(
        AttemptFailed(
            job_id="0" * 36,
            type="mail",
            queue="default",
            sequence_id="",
            worker="w",
            version=1,
            attempt=1,
            trace_id=None,
            seconds=1.5,
            failure=Failure("SMTPError", "busy\x1b[2J\nnow"),
            retry_in=0.25,
        )
    )
    lines.observe(WorkerTroubled("w", "fetcher", "the database is away"))
    done, retry, trouble = capsys.readouterr().out.splitlines()
    assert done[10:] == "done    charge                12345678  12 ms"
    assert retry[10:] == (
        "retry   mail                  00000000  after 1.5 s, again in 250 ms: "
        "SMTPError: busy\\x1b[2J\\nnow"
    )
    assert "the database is away" in trouble


def test_a_flood_is_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    second = 1.0
    lines = LineObserver(lambda: second)
    for number in range(A_SECOND + 23):
        lines.observe(completed(number))
    assert len(capsys.readouterr().out.splitlines()) == A_SECOND
    second = 2.0
    lines.observe(completed(7))
    rest, one = capsys.readouterr().out.splitlines()
    assert rest.endswith("… and 23 more done")
    assert "done" in one
    lines.close()
    assert capsys.readouterr().out == ""
