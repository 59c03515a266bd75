"""Every Python block of the README and of the pages for users runs, in order, as it is printed.

The blocks of a page share their names, and may use `await`. A page's comments hold code that
readers need not see: `<!-- setup` gives names to what a block takes for granted and runs workers,
`<!-- check` makes sure that what the page says is so. Blocks that begin with a file's name become
that file. Blocks in `py` are code for other libraries, and not run. A page that uses `dsn` gets a
fresh PostgreSQL database. What `leaving` is given is undone when the page ends.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, Block, read_blocks

PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "guarantees.md",
    ROOT / "docs" / "scaling.md",
    *sorted((ROOT / "docs" / "guides").glob("*.md")),
    *sorted((ROOT / "docs" / "coming-from").glob("*.md")),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory while a page runs; modules are found there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
async def test_page(page: Path, folder: Path, request: pytest.FixtureRequest) -> None:
    blocks = [block for block in read_blocks(page) if block.python]
    async with AsyncExitStack() as leaving:
        names: dict[str, Any] = {"__name__": page.stem, "leaving": leaving}
        if any(re.search(r"\bdsn\b", block.text) for block in blocks):
            names["dsn"] = request.getfixturevalue("postgres_url")
        if any(re.search(r"\bmongo_url\b", block.text) for block in blocks):
            names["mongo_url"] = request.getfixturevalue("mongo_url")
        for block in blocks:
            await run(block, names, page, folder)


async def run(block: Block, names: dict[str, Any], page: Path, folder: Path) -> None:
    if block.file is not None:
        (folder / block.file).write_text(block.text)
        importlib.invalidate_caches()
        module = importlib.import_module(block.file.removesuffix(".py"))
        names.update({name: value for name, value in vars(module).items() if name[0] != "_"})
        return
    code = compile(
        block.source(), str(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
    )
    if code.co_flags & inspect.CO_COROUTINE:
        await eval(code, names)
    else:
        exec(code, names)


def test_every_page_for_users_is_run() -> None:
    """A new guide is found; one without code or commands has a mistake in its fences."""
    assert len(PAGES) >= 7
    for page in PAGES:
        assert any(block.kind in ("python", "console") for block in read_blocks(page)), page
