"""Reads a page: its code blocks, and the checks in its comments that only the tests see."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<kind>\w*)[ \t]*\n(?P<fenced>.*?)^ *```[ \t]*$"
    r"|^<!-- (?P<hidden>setup|check)\n(?P<comment>.*?)^-->[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
_FILE = re.compile(r"# (?P<name>\w[\w/]*\.\w+)(?P<end>, at the end)?\n")


@dataclass(frozen=True)
class Command:
    text: str
    output: str
    """Its output as the page shows it; empty if the page shows none."""


@dataclass(frozen=True)
class Block:
    kind: str
    """The language of a code block; `check` for a comment."""
    text: str
    line: int
    """Its first line in the page."""

    @property
    def file(self) -> str | None:
        """The name of the file that it is, or is the end of, from its first line: `# shop.py`."""
        match = _FILE.match(self.text)
        return match["name"] if match else None

    @property
    def is_end_of_file(self) -> bool:
        """Its first line is like `# shop.py, at the end`."""
        match = _FILE.match(self.text)
        return match is not None and match["end"] is not None

    def commands(self) -> list[Command]:
        """The lines that begin with `$`. A backslash at the end of a line continues it."""
        parts = re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]
        found = [re.match(r"((?:[^\n]*\\\n)*[^\n]*)\n?(.*)", part, re.DOTALL) for part in parts]
        return [Command(match[1], match[2]) for match in found if match]


def read_blocks(page: Path) -> list[Block]:
    text = page.read_text()
    blocks: list[Block] = []
    for match in _BLOCK.finditer(text):
        inner = "comment" if match["hidden"] else "fenced"
        line = text.count("\n", 0, match.start(inner)) + 1
        blocks.append(Block(match["hidden"] or match["kind"], textwrap.dedent(match[inner]), line))
    return blocks
