"""Every page with code runs as shown, in an environment with the packages that it tells to install.

| block | the reader |
|---|---|
| `console` | types the commands after `$`; the output below a command, if any, is what it prints |
| first line `# shop.py` | saves the block as that file; `# shop.py, at the end` adds to the file |
| `python` | types it into `python -m asyncio`, which the page starts in a `console` block |
| `py` | reads it: code of the queue that the reader comes from |
| `sh` | runs it in a clone of the repository, not here |

Comments `<!-- check` hold assertions about what the page says. Nothing else is hidden.
"""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest

from tests.conftest import not_verified
from tests.docs.pages import ROOT, read_blocks
from tests.docs.reader import PORTS, Reader
from tests.support.processes import free_port

KINDS = {"python", "console", "py", "sh", "text", "json", "yaml", "toml", "ini", "sql", "check"}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = [
    page for page in PAGES if {block.kind for block in read_blocks(page)} & {"python", "console"}
]
DATABASES = {
    r"postgresql(?P<driver>(?:\+\w+)?)://localhost/shop\b": "postgres_url",
    r"mongodb(?P<driver>)://localhost/shop\?replicaSet=rs0": "mongo_url",
}
"""Addresses that readers replace by their own, and the tests by those of their servers."""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(400)  # the first time, the packages are downloaded
@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
async def test_page(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    for tool in ("curl", "jq"):
        if shutil.which(tool) is None and re.search(rf"^\$ .*\b{tool} ", page.read_text(), re.M):
            not_verified(f"This machine has no {tool}")
    databases = {
        address: request.getfixturevalue(fixture)
        for address, fixture in DATABASES.items()
        if re.search(address, page.read_text())
    }
    await follow(page, tmp_path, databases)


async def follow(page: Path, folder: Path, databases: dict[str, str]) -> None:
    reader = Reader(folder, databases, {port: free_port() for port in PORTS})
    try:
        for block in read_blocks(page):
            try:
                await reader.read(block)
            except AssertionError as error:
                error.add_note(f"{page.name}, line {block.line}")
                raise
    finally:
        await reader.leave()


INSTALL = "```console\n$ pip install headway\n$ python -m asyncio\n```\n"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "text",
    [
        "```console\n$ headway --version\n```",  # before any installation
        INSTALL + "```console\n$ headway --version\n```",  # the command is an extra
        INSTALL + "```python\nimport psycopg\n```",
        INSTALL + "```python\nawait app.open()\n```",
        INSTALL
        + "```python\nif True:\n    a = 1\n\n    b = 2\n```",  # as typed, it ends at the gap
        INSTALL + "<!-- check\nassert 1 == 2\n-->",
        INSTALL + "```python\n# a.py\nprint(1)\n```\n```console\n$ python a.py\n2\n```",
        "```python\nimport headway\n```",  # neither a file nor in a Python that was started
        "```python\n# a.py, at the end\n1\n```",
    ],
)
async def test_mistakes_are_found(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(text + "\n")
    with pytest.raises(AssertionError):
        await follow(page, tmp_path, {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_nothing_is_hidden_but_assertions(page: Path) -> None:
    for block in read_blocks(page):
        assert block.kind in KINDS, f"line {block.line}: {block.kind or 'no language'}"
        if block.kind == "check":
            statements = ast.parse(block.text).body
            assert all(
                isinstance(each, (ast.Assert, ast.Import, ast.ImportFrom)) for each in statements
            )
        if block.kind == "py":
            assert page.parent.name == "coming-from", f"line {block.line}: it would not be run"


def test_commands_for_a_clone_of_the_repository_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for block in read_blocks(page):
            if block.kind == "sh" and block.file is None:
                for line in block.text.splitlines():
                    make = re.match(r"make ([\w-]+)", line)
                    module = re.match(r"(?:\w+=\w+ )?\.venv/bin/python -m ([\w.]+)", line)
                    assert make or module, f"{page}, line {block.line}: {line}"
                    if make:
                        assert make[1] in targets, line
                    elif module:
                        file = ROOT / module[1].replace(".", "/")
                        assert file.with_suffix(".py").exists() or file.is_dir(), line
