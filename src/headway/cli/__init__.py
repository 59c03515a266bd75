"""The `headway` command: a module for each subcommand in `commands`, shared parts beside it. No
other package of `headway` imports it.
"""

from __future__ import annotations

import sys


def main(program: str | None = None) -> None:
    """Entry point; says what to install when the command's own dependency is missing. `program` is
    its name in usage lines and in commands that are printed."""
    try:
        from headway.cli.root import headway  # noqa: PLC0415 - it may not be installed
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit("the headway command needs click; install it with: pip install 'headway[cli]'")
    headway(prog_name=program)
