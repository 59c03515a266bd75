"""The programs of these pages run as they are printed: a block with a file's name becomes that
file, the commands below it are run, and print what the page shows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Block, read_blocks

PAGES = ("concepts", "recipes", "troubleshooting", "guides/production", "guides/reliable-jobs")
PROMPT = "$ "


def programs() -> Iterator[tuple[Block, list[str]]]:
    """Each file with the console blocks below it."""
    for page in PAGES:
        consoles: list[str] = []
        for block in read_blocks(ROOT / "docs" / f"{page}.md"):
            if block.kind == "python":
                consoles = []
                yield block, consoles
            elif block.kind == "console" and "pip install" not in block.text:
                consoles.append(block.text)


PROGRAMS = list(programs())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "consoles"), PROGRAMS, ids=[str(file.file) for file, _ in PROGRAMS]
)
def test_program(file: Block, consoles: list[str], tmp_path: Path) -> None:
    assert file.file is not None, f"no file name: {file.text}"
    assert consoles
    (tmp_path / file.file).write_text(file.text)
    environment = {name: value for name, value in os.environ.items() if "HEADWAY" not in name}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    for console in consoles:
        lines = console.splitlines()
        shown = [line for line in lines if not line.startswith(PROMPT)]
        printed = ""
        for command in (line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)):
            done = subprocess.run(
                command,
                shell=True,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
            printed += done.stdout
        if shown:
            assert printed.splitlines() == shown


def test_there_are_twelve_recipes() -> None:
    files = [block.file for block in read_blocks(ROOT / "docs" / "recipes.md") if block.python]
    assert len(files) == len(set(files)) == 12
