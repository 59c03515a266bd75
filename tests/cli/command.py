"""The command, called as a function: what it printed, where, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from click.testing import CliRunner, Result

from headway.cli.root import headway


def command(
    *arguments: str, input: str | None = None, env: Mapping[str, str | None] | None = None
) -> Result:
    """Run it in this process, without a terminal; what it does not foresee is raised here."""
    usual = {"HEADWAY_APP": None, "HEADWAY_TOKEN": None}
    result = CliRunner().invoke(
        headway, arguments, input=input, env={**usual, **(env or {})}, prog_name="headway"
    )
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def printed(*arguments: str, env: Mapping[str, str | None] | None = None) -> Any:
    """What `--json` prints, decoded; nothing else was on stdout."""
    result = command(*arguments, "--json", env=env)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)
