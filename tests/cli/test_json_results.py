"""What `--json` prints is written down, and every command that has `--json` is on the list."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from headway.cli.errors import Exit
from headway.cli.json_results import RESULTS
from headway.cli.root import headway
from tests.cli.schema import FILE, schema
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "command.md").read_text()
OWN_SHAPE = {"bench", "health"}
"""Commands whose JSON is described elsewhere."""


def commands(
    group: click.Group = headway, before: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*before, name))
        else:
            yield " ".join((*before, name)), command


def test_the_schema_is_as_it_is_published() -> None:
    """A change of it is a promise broken or made: `python -m tests.cli.schema`, and look."""
    assert FILE.read_text() == schema()


def test_every_command_with_json_is_on_the_list() -> None:
    with_json = {
        name
        for name, command in commands()
        if any("--json" in option.opts for option in command.params)
    }
    assert with_json - OWN_SHAPE == set(RESULTS)


def test_every_command_is_in_the_docs() -> None:
    words = set(re.findall(r"[a-z]+", PAGE))
    for name, _ in commands():
        assert set(name.split()) <= words, name


def test_every_option_of_the_worker_is_in_the_docs() -> None:
    worker = dict(commands())["worker"]
    for option in worker.params:
        if isinstance(option, click.Option):
            assert any(f"`{name}" in PAGE or f", `{name}" in PAGE for name in option.opts), (
                option.opts
            )


def test_every_exit_code_is_in_the_docs() -> None:
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, flags=re.MULTILINE)}
    assert documented == {int(code) for code in Exit}


def test_every_command_says_what_it_does() -> None:
    for name, command in commands():
        assert command.get_short_help_str(), name
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, (name, option.opts)
