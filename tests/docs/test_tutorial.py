"""The tutorial, followed to the letter: its files are written, its commands are run, and what they
print is what the page says, except for what differs every time (times, ids,
folders, names of workers)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, read_blocks

PAGE = ROOT / "docs" / "tutorial.md"
BEFORE = ("mkdir ", "python3 -m venv", "pip install")
"""Commands that make the place where the others are run: here, the tests' own environment is."""
DIFFERS = [
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"), "TIME"),
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"worker \S+:\d+:[0-9a-f]{8}"), "worker ID"),
    (re.compile(r"after \d+\.\d+ s"), "after SECONDS"),
    (re.compile(r'File "/.*/'), 'File "FOLDER/'),
]


@pytest.mark.slow
def test_tutorial(tmp_path: Path) -> None:
    ran = 0
    for block in read_blocks(PAGE):
        if block.python:
            assert block.file is not None, f"line {block.line}: every block is a file"
            (tmp_path / block.file).write_text(block.text)
        elif block.kind == "console":
            for command, expected in commands(block.text):
                if not command.startswith(BEFORE):
                    assert plain(run(command, tmp_path)) == plain(expected), command
                    ran += 1
    assert ran >= 10


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a block, and what each prints."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(command, rest) for command, _, rest in (part.partition("\n") for part in parts)]


def run(command: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONWARNINGS": "error"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout


def plain(text: str) -> str:
    for pattern, name in DIFFERS:
        text = pattern.sub(name, text)
    return text
