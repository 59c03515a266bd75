"""Runs both checkers over right and wrong uses; nothing of them is executed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RIGHT, WRONG = HERE / "right.py", HERE / "wrong.py"
MARK = "# error"


def run(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def pyright() -> list[dict[int, str]]:
    """What it says of the right and of the wrong uses, by line."""
    # With a project of its own, since the main one leaves the wrong uses out.
    project = ["--project", str(HERE), "--pythonpath", sys.executable]
    report = json.loads(run("pyright", "--outputjson", *project))
    assert report["summary"]["filesAnalyzed"] == 2
    return [
        {
            problem["range"]["start"]["line"] + 1: problem["message"]
            for problem in report["generalDiagnostics"]
            if Path(problem["file"]) == path
        }
        for path in (RIGHT, WRONG)
    ]


def mypy() -> list[dict[int, str]]:
    options = ("--no-error-summary", "--hide-error-context")
    output = run("mypy", *options, str(RIGHT), str(WRONG))
    found = re.findall(r"^(.*?):(\d+): error: (.*)$", output, re.MULTILINE)
    return [
        {int(line): message for file, line, message in found if Path(file).name == path.name}
        for path in (RIGHT, WRONG)
    ]


def marked(path: Path) -> set[int]:
    lines = path.read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if line.rstrip().endswith(MARK)}


@pytest.mark.slow
@pytest.mark.parametrize("check", [pyright, mypy])
def test_right_uses_are_accepted_and_wrong_ones_refused(check):
    right, found = check()
    assert right == {}
    expected = marked(WRONG)
    missed = expected - found.keys()
    surprising = {line: message for line, message in found.items() if line not in expected}
    assert not missed, f"accepted, on lines {sorted(missed)}"
    assert not surprising


def test_there_are_enough_uses():
    assert len(marked(WRONG)) >= 40
    assert RIGHT.read_text().count("\n") > 40
