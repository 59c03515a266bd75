"""Reads a page: its code blocks, and the code in its comments that only the tests see."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<kind>\w+)[ \t]*\n(?P<fenced>.*?)^ *```[ \t]*$"
    r"|^<!-- (?P<hidden>setup|check)\n(?P<comment>.*?)^-->[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
_FILE = re.compile(r"# (?P<name>\w+\.py)\n")


@dataclass(frozen=True)
class Block:
    kind: str
    """The language of a code block; `setup` or `check` for a comment."""
    text: str
    line: int
    """Where its first line is in the page."""

    @property
    def file(self) -> str | None:
        """The file that it says it is, in its first line: `# shop.py`."""
        match = _FILE.match(self.text)
        return match["name"] if match else None

    @property
    def python(self) -> bool:
        return self.kind in ("python", "setup", "check")

    def source(self) -> str:
        """The code, with lines numbered as in the page."""
        return "\n" * (self.line - 1) + self.text


def read_blocks(page: Path) -> list[Block]:
    text = page.read_text()
    blocks: list[Block] = []
    for match in _BLOCK.finditer(text):
        inner = "fenced" if match["kind"] else "comment"
        line = text.count("\n", 0, match.start(inner)) + 1
        kind = match["kind"] or match["hidden"]
        blocks.append(Block(kind, textwrap.dedent(match[inner]), line))
    return blocks
