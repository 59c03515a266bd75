"""Prints the changelog's section of a release: `python -m scripts.release_notes v0.2.0`.

Fails unless the tag names the version in pyproject.toml and the changelog has a section for it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def release_notes(tag: str, folder: Path) -> str:
    version = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    if tag != f"v{version}":
        raise SystemExit(f"The tag is {tag}, and pyproject.toml has version {version}.")
    changelog = (folder / "CHANGELOG.md").read_text("utf-8")
    section = re.search(
        rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## |\Z)",
        changelog,
        re.DOTALL | re.MULTILINE,
    )
    if section is None or not section[1].strip():
        raise SystemExit(f"CHANGELOG.md tells nothing about version {version}.")
    return section[1].strip()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m scripts.release_notes TAG")
    print(release_notes(sys.argv[1], ROOT))
