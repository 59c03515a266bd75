"""Every `headway …` that a page shows, in a code block or in a sentence, is a command that exists,
with options that it has and values that they take. Nothing is run. Configuration can be read."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from headway.cli.root import headway
from tests.docs.pages import ROOT, read_blocks

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_FENCE = re.compile(
    r"^ *```(?P<kind>[^\n]*)\n(?P<text>.*?)^ *```[ \t]*$|^<!--.*?^-->", re.DOTALL | re.MULTILINE
)
_LINE = re.compile(r"(?:^|(?<=[\s/=]))(?<!install )headway (?P<rest>[^\n]+)", re.MULTILINE)
_LIST = re.compile(r"\[headway, (?P<rest>[^\]\n]+)\]")
_SPAN = re.compile(r"`headway (?P<rest>[^`]+)`")
_CODE = ("python", "py", "text", "json", "sql")
_GLUED = re.compile(r"[\w:][<>]\w")


def commands(page: Path) -> Iterator[str]:
    text = page.read_text()
    for block in _FENCE.finditer(text):
        if block["kind"] is not None and block["kind"] not in _CODE:
            for match in _LINE.finditer(block["text"]):
                yield match["rest"]
            for match in _LIST.finditer(block["text"]):
                yield match["rest"].replace(", ", " ")
    for match in _SPAN.finditer(_FENCE.sub("", text)):
        yield " ".join(match["rest"].split())


def words(command: str) -> list[str]:
    """Of the command alone, as a shell sees them, up to a pipe, a redirection or a comment."""
    lexer = shlex.shlex(command.replace("2>&1", ""), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found: list[str] = []
    for word in lexer:
        if re.fullmatch(r"[<>|&;()]+", word):
            break
        found.append(word)
    return found


def parse(arguments: list[str]) -> None:
    """Raises a UsageError if it is not a command line that `headway` takes."""
    command: click.Command = headway
    context = click.Context(headway, info_name="headway")
    _, arguments, _ = headway.make_parser(context).parse_args(arguments)
    while isinstance(command, click.Group) and arguments and not arguments[0].startswith("-"):
        found = command.get_command(context, arguments[0])
        if found is None:
            raise click.UsageError(f"there is no command {arguments[0]!r}")
        command, arguments = found, arguments[1:]
        context = click.Context(command, parent=context, info_name=command.name)
    values, extra, _ = command.make_parser(context).parse_args(arguments)
    if extra:
        raise click.UsageError(f"{extra[0]!r} is too much")
    for parameter in command.params:
        value = values.get(parameter.name)
        if isinstance(parameter, click.Option) and isinstance(value, str):
            parameter.type_cast_value(context, value)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist(page: Path) -> None:
    for command in commands(page):
        if command.startswith(("COMMAND", "…")):
            continue
        assert not _GLUED.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", command)), (
            f"a shell takes part of this for a redirection: headway {command}"
        )
        try:
            parse(words(command))
        except click.UsageError as error:
            pytest.fail(f"headway {command}: {error.format_message()}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_configuration_can_be_read(page: Path) -> None:
    for block in read_blocks(page):
        match block.kind:
            case "yaml":
                assert list(yaml.safe_load_all(block.text))
            case "json":
                assert json.loads(block.text)
            case "toml":
                assert tomllib.loads(block.text)
            case "ini":
                configuration = configparser.ConfigParser(interpolation=None)
                configuration.read_string(block.text)
                assert configuration.sections()


def test_every_command_has_its_row() -> None:
    rows = [line for line in (ROOT / "docs" / "command.md").read_text().splitlines() if "|" in line]
    for group, command in leaves():
        words = f"{group} {command}".strip()
        pattern = rf"`(?:{words}|{command})\b"
        assert any(f"`{group or command}" in row and re.search(pattern, row) for row in rows), words


def leaves() -> Iterator[tuple[str, str]]:
    """Every command with the group that it belongs to, which may be empty."""
    for name, command in headway.commands.items():
        if isinstance(command, click.Group):
            for inner in command.commands:
                yield name, inner
        else:
            yield "", name


def test_there_are_commands_and_mistakes_are_found() -> None:
    assert sum(1 for page in PAGES for _ in commands(page)) > 50
    for wrong in ("wroker", "worker --prozesses 4", "jobs lst", "worker --lease soon"):
        with pytest.raises(click.UsageError):
            parse(words(wrong))
