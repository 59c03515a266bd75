"""The pages for contributors name existing files, and the packages in the order of the linter."""

from __future__ import annotations

import re
import tomllib

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "internals" / "architecture.md").read_text()
SOURCE = ROOT / "src" / "headway"
PLACES = (
    ROOT,
    SOURCE,
    SOURCE / "stores" / "postgres",
    SOURCE / "stores" / "postgres" / "statements",
)


def test_every_file_that_is_named_exists() -> None:
    named = set(re.findall(r"`([\w/]+(?:\.(?:py|sql|html|columns|md|toml)|/[\w/]+))`", PAGE))
    assert len(named) > 80
    assert sorted(name for name in named if not any((at / name).exists() for at in PLACES)) == []


def test_every_file_that_other_pages_name_exists() -> None:
    files = [
        path.as_posix()
        for folder in ("src", "tests", "proof", "benchmarks", "scripts", "docs")
        for path in (ROOT / folder).rglob("*.*")
    ]
    docs = ROOT / "docs"
    pages = [docs / "guarantees.md", docs / "proof.md", docs / "speed.md", docs / "scaling.md"]
    named = {
        (page.name, name)
        for page in [*pages, *docs.glob("internals/*.md"), *docs.glob("decisions/*.md")]
        for name in re.findall(r"`([\w/]+\.(?:py|sql|json))`", page.read_text())
        if name != "conftest.py"  # of a reader's own project
    }
    assert len(named) > 60
    assert [
        each for each in sorted(named) if not any(f.endswith(f"/{each[1]}") for f in files)
    ] == []


def test_the_packages_are_in_the_order_of_the_layers() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    table = PAGE[PAGE.index("| package |") : PAGE.index("Three more rules")]
    rows = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines()[2:] if row]
    assert rows == [layer.split(" | ") for layer in layers if layer != "__main__"]
